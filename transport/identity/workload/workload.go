// Package workload reads what a side proves its name with, and knows the names of others by, from
// the SPIFFE Workload API, which an agent of SPIRE, for one, serves on a socket of its machine.
package workload

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spiffe/go-spiffe/v2/workloadapi"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// socketVariable is where the environment says which socket it is.
const socketVariable = "SPIFFE_ENDPOINT_SOCKET"

// patience is how long the API has to answer.
const patience = 10 * time.Second

// Source returns what reads the identity of this process, the first where it has several, and the
// CAs of its trust domain, and of no other. socket is an address such as
// unix:///run/spire/sockets/agent.sock; empty is what SPIFFE_ENDPOINT_SOCKET says. It is nil if
// neither says anything.
func Source(socket string) (identity.Source, error) {
	if socket == "" {
		socket = os.Getenv(socketVariable)
	}
	if socket == "" {
		return nil, nil
	}
	if err := workloadapi.ValidateAddress(socket); err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	return func(ctx context.Context) (identity.Bundle, error) {
		b, err := read(ctx, socket)
		if err != nil {
			return identity.Bundle{}, fmt.Errorf("workload: read the identity from %s: %w", socket, err)
		}
		return b, nil
	}, nil
}

func read(ctx context.Context, socket string) (b identity.Bundle, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("there is no answer in %v", patience))
	defer cancel()
	x, err := workloadapi.FetchX509Context(ctx, workloadapi.WithAddr(socket))
	if err != nil {
		return b, err
	}
	own := x.DefaultSVID()
	trusted, err := x.Bundles.GetX509BundleForTrustDomain(own.ID.TrustDomain())
	if err != nil {
		return b, err
	}
	b.CA.Where, b.Cert.Where, b.Key.Where = socket, socket, socket
	if b.Cert.PEM, b.Key.PEM, err = own.Marshal(); err == nil {
		b.CA.PEM, err = trusted.Marshal()
	}
	return b, err
}
