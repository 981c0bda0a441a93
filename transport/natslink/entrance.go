package natslink

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport/tunnel"
)

// Paths of the URLs by which agents come by websocket: those that run a server, and those that do
// not.
const (
	WebsocketPath       = "/argocd-agent/nats"
	ClientWebsocketPath = "/argocd-agent/nats-client"
)

// An entrance is where agents come in by websocket. The server accepts its connections by
// itself, so that what a websocket carries is passed on to where it listens. The server's own
// websockets would end the TLS in which an agent proves its name at whatever lies between.
type entrance struct {
	log *zap.Logger

	mu   sync.Mutex
	from map[string]net.Addr // where connections really come from, by where the server sees them come from
}

func newEntrance(log *zap.Logger) *entrance {
	return &entrance{log: log, from: map[string]net.Addr{}}
}

// origin returns where a connection comes from that the server sees come from an address.
func (e *entrance) origin(seen net.Addr) net.Addr {
	if seen == nil {
		return nil // it has ended
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if from := e.from[seen.String()]; from != nil {
		return from
	}
	return seen
}

// run passes on what comes to a listener, until ctx is done. The server listens for a connection
// at the address that lead returns.
func (e *entrance) run(ctx context.Context, l net.Listener, lead func(net.Conn) string) {
	var all sync.WaitGroup
	defer all.Wait()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // such as that there are too many files: it may pass
			e.log.Warn("no connection by websocket is accepted", zap.Error(err))
			if sleep(ctx, time.Second) != nil {
				return
			}
		default:
			all.Go(func() { e.pass(ctx, conn, lead(conn)) })
		}
	}
}

// pass passes a connection on, until it ends or ctx is done.
func (e *entrance) pass(ctx context.Context, conn net.Conn, address string) {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	to, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		_ = conn.Close() // the server is about to come back, or to end; the agent comes again
		return
	}
	seen := to.LocalAddr().String()
	e.mu.Lock()
	e.from[seen] = conn.RemoteAddr()
	e.mu.Unlock()
	tunnel.Join(conn, to)
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.from, seen)
}

// within returns the address by which this process reaches what listens on host:port.
func within(host, port string) string {
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
		if ip != nil && ip.To4() != nil {
			host = "127.0.0.1"
		}
	}
	return net.JoinHostPort(host, port)
}
