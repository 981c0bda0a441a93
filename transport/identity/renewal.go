package identity

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// A Renewal keeps Credentials what they are where they are kept.
type Renewal struct {
	Credentials *Credentials
	// Read reads them.
	Read Source
	// Every is how long they are believed.
	Every time.Duration
	Log   *zap.Logger
}

// soon is how long before the expiry of a certificate a Renewal warns of it; sooner if that is
// more than a sixth of its life.
const soon = 7 * 24 * time.Hour

// Run reads them again and again until ctx is done. What cannot be read or used changes
// nothing, and is told once if it is still so at the next look: the files may just be written.
func (r Renewal) Run(ctx context.Context) error {
	t := time.NewTicker(r.Every)
	defer t.Stop()
	failed, warned := 0, time.Time{}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case now := <-t.C:
			err := r.look(ctx, now)
			if failed++; err == nil {
				failed = 0
			}
			if failed == 2 && ctx.Err() == nil {
				r.Log.Warn("the credentials cannot be read anew: those of before stay in use",
					zap.Error(err), zap.Time("expires", r.Credentials.Expiry()))
			}
			if e := r.Credentials.Expiry(); e != warned && r.late(now) {
				warned = e
				r.Log.Warn("the certificate expires soon, and has not been replaced", zap.Time("expires", e))
			}
		}
	}
}

// look reads them once.
func (r Renewal) look(ctx context.Context, now time.Time) error {
	b, err := r.Read(ctx)
	if err != nil {
		return err
	}
	_, err = r.Credentials.replace(b, now, func(was, is *credential) {
		if b.sameTexts(was.bundle) {
			r.Log.Info("users and passwords are replaced")
			return
		}
		_, end := is.life()
		r.Log.Info("certificate and CA are replaced", zap.Time("expires", end))
	})
	return err
}

// late reports whether the certificate should have been replaced by now.
func (r Renewal) late(now time.Time) bool {
	begin, end := r.Credentials.get().life()
	return !end.IsZero() && end.Sub(now) < min(soon, end.Sub(begin)/6)
}
