package grpclink

import (
	"context"
	"crypto/x509"
	"slices"
	"time"

	"go.uber.org/zap"
)

// expiryEvery is how often it is looked whether certificates have expired.
const expiryEvery = time.Second

// watch cuts agents off that are not to be trusted any more: their certificates have expired,
// the CA is another, or they are blocked. They connect again once they are.
func (d *desk) watch(ctx context.Context) {
	t := time.NewTicker(expiryEvery)
	defer t.Stop()
	changed := d.trust.Changed()
	for {
		all := false
		select {
		case <-ctx.Done():
			return
		case <-changed:
			changed, all = d.trust.Changed(), true
		case <-t.C:
		}
		d.expel(time.Now(), all)
	}
}

// expel cuts off those that are not trusted, be it only of those with a certificate that has
// expired.
func (d *desk) expel(now time.Time, all bool) {
	expired := func(c *x509.Certificate) bool { return now.After(c.NotAfter) }
	d.mu.Lock()
	defer d.mu.Unlock()
	for agent, s := range d.seats {
		if s.session == nil || s.session.ctx.Err() != nil || !all && !slices.ContainsFunc(s.shown, expired) {
			continue
		}
		if err := d.trust.Trusts(agent, s.shown, now); err != nil {
			d.log.Warn("an agent is cut off", zap.String("agent", agent), zap.Error(err))
			s.session.end(unproven(err))
		}
	}
}
