package identity

import (
	"context"
	"errors"
	"fmt"
	"net/url"
)

// errNoWorkload is where nobody has said what gives identities.
var errNoWorkload = errors.New("identity: spiffe: no socket of the Workload API is named, by --spiffe-endpoint-socket or SPIFFE_ENDPOINT_SOCKET")

// spiffe is the Method of agents that have SPIFFE IDs, with an expression that matches the whole ID.
// The principal's own certificate, and the CAs that it trusts, are those of the Workload API.
func spiffe(pattern string, t Terms) (Method, error) {
	m, err := byURI(pattern, t)
	if err != nil {
		return Method{}, err
	}
	if t.Workload == nil {
		return Method{}, errNoWorkload
	}
	m.Source = func(Kept) Source { return t.Workload }
	return m, nil
}

// ownSPIFFE is the Source of an agent that has its certificate from the Workload API, and meets
// nobody but who has the SPIFFE ID id: a host's name is in no such certificate.
func ownSPIFFE(id string, t Terms) (func(Kept) Source, error) {
	u, err := url.Parse(id)
	switch {
	case err != nil || u.Scheme != "spiffe" || u.Host == "" || u.Path == "":
		return nil, fmt.Errorf("identity: %q is no SPIFFE ID, which is to be the principal's", id)
	case t.Workload == nil:
		return nil, errNoWorkload
	}
	return func(Kept) Source {
		return func(ctx context.Context) (Bundle, error) {
			b, err := t.Workload(ctx)
			b.Peer = id
			return b, err
		}
	}, nil
}
