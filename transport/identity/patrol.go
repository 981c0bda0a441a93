package identity

import (
	"context"
	"time"
)

// expiryEvery is how often a patrol looks whether certificates have expired.
const expiryEvery = time.Second

// Patrol calls look whenever an agent that was let in may not be trusted any more, until ctx is
// done: once a second, since certificates expire, and at once when the Credentials have changed.
// look asks distrusted of each agent's Proof, and cuts off whoever it is given a reason for.
func (c *Credentials) Patrol(ctx context.Context, look func(distrusted func(Proof) error)) {
	t := time.NewTicker(expiryEvery)
	defer t.Stop()
	changed := c.Changed()
	for {
		all := false
		select {
		case <-ctx.Done():
			return
		case <-changed:
			changed, all = c.Changed(), true
		case <-t.C:
		}
		now := time.Now()
		look(func(p Proof) error {
			// Only one of these can have changed what was found at the last look.
			if !all && !p.expired(now) {
				return nil
			}
			return c.Trusts(p, now)
		})
	}
}
