package natslink

import (
	"context"
	"sync"
	"time"
)

// Times of the watchdog: how long the principal may be unheard before a fault of our own
// is suspected, and how often it looks.
const (
	suspectAfter = 2 * time.Minute
	watchEvery   = 10 * time.Second
)

// unheard is why it is restarted, if the server itself reports nothing.
const unheard = "the principal can be reached, and has not been heard for long"

// A watchdog has the server of a leaf made anew when the principal has not been heard for a
// long time although it can be reached: a leaf node has been seen to give up connecting
// (nats-server issues 3515 and 7615).
type watchdog struct {
	config LeafConfig
	node   *node
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func newWatchdog(c LeafConfig, n *node) *watchdog {
	w := &watchdog{config: c, node: n}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

func (w *watchdog) start(p *peer) {
	w.done.Go(func() {
		t := time.NewTicker(watchEvery)
		defer t.Stop()
		since := time.Now() // of the last sign that all is well, or of the last attempt
		for {
			select {
			case now := <-t.C:
				_, heard := p.state()
				if heard.After(since) {
					since = heard
				}
				if now.Sub(since) > suspectAfter && w.reachable() {
					w.node.fail(unheard)
					since = now
				}
			case <-w.ctx.Done():
				return
			}
		}
	})
}

func (w *watchdog) stop() {
	w.cancel()
	w.done.Wait()
}

// reachable reports whether something listens where the principal should be.
func (w *watchdog) reachable() bool {
	ctx, cancel := context.WithTimeout(w.ctx, dialTimeout)
	defer cancel()
	c, err := w.config.route.Dial(ctx, w.config.Connect)
	if err != nil {
		return false
	}
	return c.Close() == nil
}
