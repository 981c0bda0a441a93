package multihub

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// streams are those of the carrier on which the agent is.
type streams struct{ *link }

// Streams implements transport.Link.
func (l *link) Streams() transport.Streams { return streams{l} }

// Open implements transport.Streams.
func (s streams) Open(ctx context.Context, service string) (c net.Conn, err error) {
	err = s.on(func(b *branch) error {
		c, err = b.Streams().Open(ctx, service)
		return err
	})
	return s.bound(c, err)
}

// Accept implements transport.Streams.
func (s streams) Accept(ctx context.Context) (service string, c net.Conn, err error) {
	err = s.on(func(b *branch) error {
		until, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(b.ctx, func() { cancel(transport.ErrClosed) })()
		service, c, err = b.Streams().Accept(until)
		return err
	})
	c, err = s.bound(c, err)
	return service, c, err
}

// bound returns a stream that ends with ErrAway if the link goes over.
func (s streams) bound(c net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, s.plain(err)
	}
	return &conn{c, s.link}, nil
}

// plain returns what an error of a stream is to those who do not know of carriers: one that was
// left is closed on this side, but not by them.
func (l *link) plain(err error) error {
	if errors.Is(err, transport.ErrClosed) && l.ctx.Err() == nil {
		return fmt.Errorf("multihub: %s has come on another transport: %w", l.agent, transport.ErrAway)
	}
	return err
}

// A conn is a stream of one carrier.
type conn struct {
	net.Conn
	link *link
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.link.plain(err)
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.link.plain(err)
}

// CloseWrite ends what is written, as transport.Streams says.
func (c *conn) CloseWrite() error {
	return c.link.plain(c.Conn.(interface{ CloseWrite() error }).CloseWrite())
}
