package proxy

import (
	"context"
	"net"
	"sync"
)

// A Door is a net.Listener of streams: a server of the standard library accepts what is put
// there.
type Door struct {
	conns chan net.Conn
	shut  chan struct{}
	once  sync.Once
}

// NewDoor returns a Door that is open.
func NewDoor() *Door {
	return &Door{conns: make(chan net.Conn), shut: make(chan struct{})}
}

// Put hands c to whoever accepts, or closes it if nobody does before ctx is done or the Door
// is closed.
func (d *Door) Put(ctx context.Context, c net.Conn) {
	select {
	case d.conns <- c:
		return
	case <-d.shut:
	case <-ctx.Done():
	}
	_ = c.Close() // nothing was said on it
}

// Accept implements net.Listener.
func (d *Door) Accept() (net.Conn, error) {
	select {
	case c := <-d.conns:
		return c, nil
	case <-d.shut:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. What was accepted stays open.
func (d *Door) Close() error {
	d.once.Do(func() { close(d.shut) })
	return nil
}

// Addr implements net.Listener.
func (*Door) Addr() net.Addr { return nowhere{} }

// nowhere is the address of streams.
type nowhere struct{}

func (nowhere) Network() string { return "stream" }
func (nowhere) String() string  { return "peer" }
