package agent

import (
	"context"
	"fmt"
	"net"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// Open opens a stream for a service of the principal's process, see transport.Streams. It fails
// at once with transport.ErrAway if the principal is not there.
func (a *Agent) Open(ctx context.Context, service string) (net.Conn, error) {
	streams := a.streams.Load()
	if streams == nil {
		return nil, fmt.Errorf("agent: open a stream for %s before there is a link: %w", service, transport.ErrAway)
	}
	return (*streams).Open(ctx, service)
}
