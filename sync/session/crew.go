package session

import (
	"context"
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
	if c.workers < c.limit && c.workers-len(c.hand) < len(c.order) {
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
	if len(c.order) == 0 || ctx.Err() != nil {
		c.workers--
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

// wait returns once no worker is left. The context of all work must be done.
func (c *crew[V]) wait() { c.all.Wait() }
