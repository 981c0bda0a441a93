package session

import (
	"fmt"

	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// understood says which side is to be upgraded, if there is no protocol version that both
// sides speak.
func understood(p transport.Presence, peer string) error {
	switch {
	case p.Newest < wire.Oldest:
		return fmt.Errorf("%w: %s (%s) speaks %d to %d, we speak %d to %d: upgrade %s",
			transport.ErrVersion, peer, p.Version, p.Oldest, p.Newest, wire.Oldest, wire.Newest, peer)
	case p.Oldest > wire.Newest:
		return fmt.Errorf("%w: %s (%s) speaks %d to %d, we speak %d to %d: upgrade this side",
			transport.ErrVersion, peer, p.Version, p.Oldest, p.Newest, wire.Oldest, wire.Newest)
	}
	return nil
}
