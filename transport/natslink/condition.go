package natslink

import (
	"context"
	"sync"
)

// A condition says whether a store, or one stream in it, takes anything in now. What is
// being put into it is given up once it does not.
type condition struct {
	within *condition // that of the whole store; nil if it is that

	mu     sync.Mutex
	bad    error           // why it takes nothing in
	ctx    context.Context // done with the cause once it, or the whole store, takes nothing in
	cancel context.CancelCauseFunc
}

func newCondition(within *condition) *condition {
	c := &condition{within: within}
	c.renew(c.outer())
	return c
}

func (c *condition) outer() context.Context {
	if c.within == nil {
		return context.Background()
	}
	return c.within.good()
}

func (c *condition) renew(outer context.Context) {
	c.ctx, c.cancel = context.WithCancelCause(outer)
}

// good returns a context that is done, with the reason as its cause, when c is bad.
func (c *condition) good() context.Context {
	outer := c.outer()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bad == nil && c.ctx.Err() != nil {
		c.renew(outer)
	}
	return c.ctx
}

// usable returns why nothing can be put in, nil if something can.
func (c *condition) usable() error { return context.Cause(c.good()) }

// isGood reports whether nothing is wrong with c itself.
func (c *condition) isGood() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bad == nil
}

// bind returns ctx, done also when c is bad, and what to call after use.
func (c *condition) bind(ctx context.Context) (context.Context, func()) {
	good := c.good()
	bound, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(good, func() { cancel(context.Cause(good)) })
	if good.Err() != nil {
		cancel(context.Cause(good)) // now, not in a moment
	}
	return bound, func() { stop(); cancel(nil) }
}

// spoil makes c bad.
func (c *condition) spoil(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad = err
	c.cancel(err)
}

// mend makes c good, as far as the whole store is.
func (c *condition) mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad = nil
}

// drop gives up what c holds. Nothing can be put in any more.
func (c *condition) drop() { c.spoil(context.Canceled) }
