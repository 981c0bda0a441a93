//go:build !failpoints

package command

import (
	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// The program has no points at which it can be killed: see package failpoint.

func hubFailpoints(h transport.Hub, s backend.Store) (transport.Hub, backend.Store, error) {
	return h, s, nil
}

func agentFailpoints(d transport.Dialer, s backend.Store) (transport.Dialer, backend.Store, error) {
	return d, s, nil
}
