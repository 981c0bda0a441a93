package natslink

import (
	"context"
	"sync"
	"time"
)

// A watch is the times of a watchdog.
type watch struct {
	// after is how long the principal may be unheard before a fault of our own is suspected.
	// After each attempt that was in vain it is twice as long, up to most: it may not be ours,
	// or the principal refuses us.
	after, most time.Duration
	every       time.Duration // how often it looks
}

func usualWatch() watch {
	return watch{after: 2 * time.Minute, most: 32 * time.Minute, every: 10 * time.Second}
}

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
		t := time.NewTicker(w.config.watch.every)
		defer t.Stop()
		s := suspicion{watch: w.config.watch, since: time.Now()}
		for {
			select {
			case now := <-t.C:
				_, heard := p.state()
				if s.due(now, heard) && w.reachable() {
					s.acted(now)
					w.node.fail(unheard)
				}
			case <-w.ctx.Done():
				return
			}
		}
	})
}

// A suspicion is that the server is at fault.
type suspicion struct {
	watch
	since time.Time     // of the last sign that all is well, or of the last attempt
	wait  time.Duration // from then to the next attempt; 0 is the first
}

// due reports whether it is time to act, if the principal was heard last then.
func (s *suspicion) due(now, heard time.Time) bool {
	if heard.After(s.since) {
		s.since, s.wait = heard, 0
	}
	return now.Sub(s.since) > max(s.after, s.wait)
}

func (s *suspicion) acted(now time.Time) {
	s.since, s.wait = now, min(2*max(s.after, s.wait), s.most)
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
