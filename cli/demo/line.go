package demo

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
)

// A line is the network between one agent and the principal: a TCP proxy that can be cut.
type line struct {
	listener net.Listener
	to       string // the principal's address

	mu    sync.Mutex
	isCut bool
	ends  map[net.Conn]struct{}
}

// newLine returns a line to an address, which carries nothing until Run is called.
func newLine(to string) (*line, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo: open a line: %w", err)
	}
	return &line{listener: l, to: to, ends: map[net.Conn]struct{}{}}, nil
}

// address returns where the line begins.
func (l *line) address() string { return l.listener.Addr().String() }

// Run carries connections until ctx is done, and returns its cause.
func (l *line) Run(ctx context.Context) error {
	var carrying sync.WaitGroup
	defer carrying.Wait()
	stop := context.AfterFunc(ctx, func() {
		l.cut()
		l.listener.Close()
	})
	defer stop()
	for {
		near, err := l.listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("demo: carry a connection: %w", err)
		}
		carrying.Go(func() { l.carry(ctx, near) })
	}
}

// carry joins a connection to one with the principal, until either end or the line goes.
func (l *line) carry(ctx context.Context, near net.Conn) {
	defer l.drop(near)
	if !l.hold(near) {
		return
	}
	far, err := new(net.Dialer).DialContext(ctx, "tcp", l.to)
	if err != nil {
		return // as if nobody listened there
	}
	defer l.drop(far)
	if !l.hold(far) {
		return
	}
	var back sync.WaitGroup
	defer back.Wait()
	back.Go(func() {
		io.Copy(near, far) // ends with an error when the line is cut
		near.Close()
	})
	io.Copy(far, near)
	far.Close()
}

// hold notes an end of a connection, unless the line is cut.
func (l *line) hold(end net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isCut {
		l.ends[end] = struct{}{}
	}
	return !l.isCut
}

func (l *line) drop(end net.Conn) {
	end.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.ends, end)
}

// cut closes all connections and refuses new ones.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = true
	for end := range l.ends {
		end.Close()
	}
}

// heal carries connections again.
func (l *line) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = false
}
