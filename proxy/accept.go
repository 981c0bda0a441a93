package proxy

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// acceptAgain is after what time connections are accepted again when that fails for a while, as
// it does where too many files are open.
const acceptAgain = 100 * time.Millisecond

// Accept has every connection that comes to l served, each in a goroutine of its own, until ctx
// is done, and returns its cause, or until l is closed. Then l is closed, and all are served
// to their end.
func Accept(ctx context.Context, l net.Listener, serve func(context.Context, net.Conn)) error {
	ctx, stop := context.WithCancel(ctx)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer stop()
	end := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer end()
	defer l.Close() // nobody is to wait there
	for {
		c, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = c.Close() // nothing was said on it
			}
			return context.Cause(ctx)
		case err == nil:
			serving.Go(func() { serve(ctx, c) })
			continue
		case errors.Is(err, net.ErrClosed):
			return err
		}
		select {
		case <-time.After(acceptAgain):
		case <-ctx.Done():
		}
	}
}
