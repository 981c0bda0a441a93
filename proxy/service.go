package proxy

import (
	"context"
	"net"
	"sync"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A Service takes over the streams that the other side has opened for it, and closes each in
// the end, at the latest when ctx is done. It may return before that.
type Service func(ctx context.Context, c net.Conn)

// Services are those of one process, by the names that the other side asks for.
type Services map[string]Service

// An Opener opens a stream for a service of an agent's process. It fails at once with
// transport.ErrAway if the agent is not there, and with transport.ErrUnknown if there is no
// such agent.
type Opener func(ctx context.Context, agent, service string) (net.Conn, error)

// Serve hands the streams that the peer opens to the services they are for, until ctx is done
// or the link is closed. A stream for a service that is not there is closed, and one that its
// service is slow to take holds up no other.
func (s Services) Serve(ctx context.Context, streams transport.Streams) {
	ctx, stop := context.WithCancel(ctx)
	var taking sync.WaitGroup
	defer taking.Wait()
	defer stop()
	for {
		name, c, err := streams.Accept(ctx)
		if err != nil {
			return // which happens for no other reason
		}
		serve, ok := s[name]
		if !ok {
			_ = c.Close() // nothing was said on it
			continue
		}
		taking.Go(func() { serve(ctx, c) })
	}
}
