package share

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"
)

// A Forward is a service that ends at one address.
type Forward struct {
	cfg   ForwardConfig
	slots chan struct{}
}

// ForwardConfig is what a Forward is made of. All fields are needed.
type ForwardConfig struct {
	Address string // host and port
	Conns   int    // how many connections there may be at a time
	Log     *zap.Logger
}

// NewForward returns a Forward.
func NewForward(c ForwardConfig) (*Forward, error) {
	switch {
	case c.Address == "" || c.Log == nil:
		return nil, errors.New("share: an address and a log are needed")
	case c.Conns < 1:
		return nil, fmt.Errorf("share: %d connections to %s", c.Conns, c.Address)
	}
	return &Forward{cfg: c, slots: make(chan struct{}, c.Conns)}, nil
}

// connecting is how long a server may take to be reached.
const connecting = 5 * time.Second

// Serve implements [proxy.Service].
func (f *Forward) Serve(ctx context.Context, c net.Conn) {
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	default:
		f.cfg.Log.Warn("too many connections are open to a server that is shared", zap.String("address", f.cfg.Address), zap.Int("connections", f.cfg.Conns))
		_ = c.Close() // nothing was said on it
		return
	}
	near, err := (&net.Dialer{Timeout: connecting}).DialContext(ctx, "tcp", f.cfg.Address)
	if err != nil {
		f.cfg.Log.Warn("a server that is shared is not reached", zap.String("address", f.cfg.Address), zap.Error(err))
		_ = c.Close() // nothing was said on it
		return
	}
	join(ctx, near, c)
}

// join has each of two connections say what the other hears, until both have ended, one has
// failed or ctx is done. Then both are closed.
func join(ctx context.Context, a, b net.Conn) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	end := context.AfterFunc(ctx, func() { _, _ = a.Close(), b.Close() })
	defer end()
	defer func() { _, _ = a.Close(), b.Close() }() // all was said that could be
	var both sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{a: b, b: a} {
		both.Go(func() {
			if !pass(from, to) {
				stop()
			}
		})
	}
	both.Wait()
}

// pass has to say what from hears, and its end; false if that cannot be.
func pass(from, to net.Conn) bool {
	if _, err := io.Copy(to, from); err != nil {
		return false
	}
	half, ok := to.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}
