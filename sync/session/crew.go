package session

import (
	"context"
	"maps"
	"sync"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A crew does work that comes by key. Of each key the last value waits, first come first
// served; a free worker takes the next whose key no other worker has in hand. There are
// only as many workers as there is work, up to a limit.
type crew[V any] struct {
	limit int
	do    func(context.Context, V)

	mu      sync.Mutex
	last    map[resource.Key]V        // what waits
	order   []resource.Key            // those of them that may be taken
	hand    map[resource.Key]struct{} // in hand
	workers int
	paused  bool
	idle    chan struct{} // closed when the last worker goes; nil while nobody waits for that
	all     sync.WaitGroup
}

func newCrew[V any](limit int, do func(context.Context, V)) *crew[V] {
	return &crew[V]{limit: limit, do: do, last: map[resource.Key]V{}, hand: map[resource.Key]struct{}{}}
}

// put has v done in place of whatever waits of its key. It does not wait.
func (c *crew[V]) put(ctx context.Context, k resource.Key, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, waits := c.last[k]
	c.last[k] = v
	if _, busy := c.hand[k]; !waits && !busy {
		c.order = append(c.order, k)
	}
	c.hire(ctx)
}

// hire starts workers for what may be taken.
func (c *crew[V]) hire(ctx context.Context) {
	for !c.paused && c.workers < c.limit && c.workers-len(c.hand) < len(c.order) {
		c.workers++
		c.all.Go(func() { c.work(ctx) })
	}
}

func (c *crew[V]) work(ctx context.Context) {
	for {
		k, v, ok := c.take(ctx)
		if !ok {
			return
		}
		c.do(ctx, v)
		c.done(k)
	}
}

// take returns what is next and puts its key in hand; if there is nothing to do the
// worker is taken off the crew.
func (c *crew[V]) take(ctx context.Context) (k resource.Key, v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.order) == 0 || c.paused || ctx.Err() != nil {
		c.workers--
		if c.workers == 0 && c.idle != nil {
			close(c.idle)
			c.idle = nil
		}
		return k, v, false
	}
	k = c.order[0]
	c.order = c.order[1:]
	v = c.last[k]
	delete(c.last, k)
	c.hand[k] = struct{}{}
	return k, v, true
}

func (c *crew[V]) done(k resource.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.hand, k)
	if _, waits := c.last[k]; waits {
		c.order = append(c.order, k)
	}
}

// pause keeps everything from being begun until resume, and returns once nothing is in
// hand.
func (c *crew[V]) pause(ctx context.Context) error {
	idle := make(chan struct{})
	c.mu.Lock()
	c.paused = true
	if c.workers == 0 {
		close(idle)
	} else {
		c.idle = idle
	}
	c.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *crew[V]) resume(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = false
	c.hire(ctx)
}

// waiting returns what waits, by key.
func (c *crew[V]) waiting() map[resource.Key]V {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.last)
}

// wait returns once no worker is left. The context of all work must be done.
func (c *crew[V]) wait() { c.all.Wait() }
