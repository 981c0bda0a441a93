// Package netfault is a TCP line that can be cut, be half open or be slow, for tests.
package netfault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// A Fault is the state of a line.
type Fault uint8

// The states of a line.
const (
	Healthy   Fault = iota
	Cut             // connections are closed, and new ones as soon as they are made
	BlackHole       // half open: nothing is closed or refused, but no byte arrives
	Slow            // each piece takes 20 ms to 200 ms, so less than 1 MiB/s passes
)

// String returns the name of f.
func (f Fault) String() string {
	return [...]string{"healthy", "cut", "black hole", "slow"}[f]
}

const (
	piece   = 64 << 10
	short   = 200 // bytes: what only says that its sender is there is no longer
	slowMin = 20 * time.Millisecond
	slowMax = 200 * time.Millisecond
)

// A Line listens on a port of the loopback interface and passes on what connects.
type Line struct {
	listener net.Listener
	target   func() string
	ctx      context.Context
	cancel   context.CancelFunc
	pumps    sync.WaitGroup

	mu      sync.Mutex
	fault   Fault
	changed chan struct{}         // closed and replaced at each Set
	conns   map[net.Conn]net.Conn // the end that was dialed by the one that was accepted
	lingers map[net.Conn]bool     // ends that were dialed, and are not closed with the others
	long    uint64                // pieces that have passed
}

// Listen returns a healthy Line to what target returns when a connection is made: a
// host:port, or "" if nothing is there.
func Listen(target func() string) (*Line, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("netfault: %w", err)
	}
	line := &Line{listener: l, target: target, changed: make(chan struct{}), conns: map[net.Conn]net.Conn{}, lingers: map[net.Conn]bool{}}
	line.ctx, line.cancel = context.WithCancel(context.Background())
	line.pumps.Go(line.accept)
	return line, nil
}

// Addr returns the address to connect to.
func (l *Line) Addr() string { return l.listener.Addr().String() }

// Set puts the line into a state.
func (l *Line) Set(f Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = f
	close(l.changed)
	l.changed = make(chan struct{})
	if f == Cut {
		l.closeAll()
	}
}

// Long returns how many pieces have passed that are too long to be a mere sign of life.
func (l *Line) Long() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.long
}

// Drop closes the connections that there are for who has made them, and for the target only
// after a while, as if a middlebox were late to tell it. The channel that it returns is
// closed then. New connections are made meanwhile.
func (l *Line) Drop(after time.Duration) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	var left []net.Conn
	for from, to := range l.conns {
		l.lingers[to] = true
		left = append(left, to)
		_ = from.Close() // it ends
	}
	clear(l.conns)
	told := make(chan struct{})
	l.pumps.Go(func() {
		defer close(told)
		l.wait(after)
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, to := range left {
			_ = to.Close()
			delete(l.lingers, to)
		}
	})
	return told
}

// Close ends the line and waits for its goroutines.
func (l *Line) Close() error {
	l.cancel()
	err := l.listener.Close()
	l.mu.Lock()
	l.closeAll()
	l.mu.Unlock()
	l.pumps.Wait()
	return err
}

// closeAll is called with the lock held. Errors of connections that end are of no interest.
func (l *Line) closeAll() {
	for a, b := range l.conns {
		_, _ = a.Close(), b.Close()
	}
	clear(l.conns)
}

func (l *Line) accept() {
	for {
		from, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.pumps.Go(func() { l.connect(from) })
	}
}

// connect joins a new connection to the target, once bytes can pass.
func (l *Line) connect(from net.Conn) {
	var to net.Conn
	fault, ok := l.pass()
	if ok && fault != Cut {
		var d net.Dialer
		if address := l.target(); address != "" {
			to, _ = d.DialContext(l.ctx, "tcp", address) // nil if it fails
		}
	}
	if to == nil || !l.add(from, to) {
		_ = from.Close()
		return
	}
	l.pumps.Go(func() { l.pump(from, to) })
	l.pump(to, from)
}

func (l *Line) add(from, to net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == Cut || l.ctx.Err() != nil {
		_ = to.Close()
		return false
	}
	l.conns[from] = to
	return true
}

// pass waits until the line is no black hole, and returns its state.
func (l *Line) pass() (Fault, bool) {
	for {
		l.mu.Lock()
		f, changed := l.fault, l.changed
		l.mu.Unlock()
		if f != BlackHole {
			return f, l.ctx.Err() == nil
		}
		select {
		case <-changed:
		case <-l.ctx.Done():
			return f, false
		}
	}
}

// pump moves what from sends to to, and closes both when either ends.
func (l *Line) pump(from, to net.Conn) {
	buffer := make([]byte, piece)
	for {
		n, err := from.Read(buffer)
		fault, ok := l.pass() // the end of a connection does not cross a black hole either
		if ok && fault == Slow {
			ok = l.wait(slowMin + rand.N(slowMax-slowMin))
		}
		if ok && n > 0 {
			l.count(n)
			_, werr := to.Write(buffer[:n])
			ok = werr == nil
		}
		if !ok || err != nil {
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, end := range []net.Conn{from, to} {
		if !l.lingers[end] {
			_ = end.Close()
		}
		delete(l.conns, end)
	}
}

func (l *Line) count(n int) {
	if n <= short {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.long++
}

func (l *Line) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.ctx.Done():
		return false
	}
}
