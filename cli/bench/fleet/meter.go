package fleet

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// A meter is a line between agents and their principal that counts bytes.
type meter struct {
	listener net.Listener
	to       string
	up, down atomic.Int64

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func newMeter(to string) (*meter, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &meter{listener: l, to: to, conns: map[net.Conn]struct{}{}}, nil
}

func (m *meter) address() string { return m.listener.Addr().String() }

func (m *meter) traffic() Traffic { return Traffic{Up: m.up.Load(), Down: m.down.Load()} }

// run passes on connections until ctx is done.
func (m *meter) run(ctx context.Context) error {
	var pumps sync.WaitGroup
	defer pumps.Wait()
	defer m.closeAll()
	stop := context.AfterFunc(ctx, func() { m.listener.Close() })
	defer stop()
	for {
		from, err := m.listener.Accept()
		if err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		pumps.Go(func() { m.join(ctx, from) })
	}
}

func (m *meter) join(ctx context.Context, from net.Conn) {
	defer from.Close()
	far, err := new(net.Dialer).DialContext(ctx, "tcp", m.to)
	if err != nil {
		return // as if nobody listened
	}
	defer far.Close()
	m.mu.Lock()
	m.conns[from] = struct{}{}
	m.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		pump(far, from, &m.up)
	}()
	pump(from, far, &m.down)
	<-ended
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.conns, from)
}

func (m *meter) closeAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.conns {
		c.Close()
	}
}

// pump passes on what is read until either connection ends, and then ends both.
func pump(to, from net.Conn, n *atomic.Int64) {
	defer from.Close()
	defer to.Close()
	_, _ = io.Copy(counted{to, n}, from)
}

type counted struct {
	io.Writer
	n *atomic.Int64
}

// Write implements io.Writer.
func (c counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n.Add(int64(n))
	return n, err
}
