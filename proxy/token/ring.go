package token

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// A Source reads the text of Keys as it is now. Where there is none it returns fs.ErrNotExist.
type Source func(context.Context) ([]byte, error)

// RingConfig is what a Ring is made of. All is needed.
type RingConfig struct {
	Read  Source
	Every time.Duration // how long what was read is believed
	Log   *zap.Logger
}

// A Ring keeps Keys what they are where they are kept. It may be used from any goroutine, also
// before and while it runs: as long as nothing was read it has none.
type Ring struct {
	cfg  RingConfig
	keys atomic.Pointer[Keys]
	text []byte // that they were read from; Load's own
}

// NewRing returns a Ring that has read nothing yet.
func NewRing(c RingConfig) (*Ring, error) {
	if c.Read == nil || c.Every <= 0 || c.Log == nil {
		return nil, errors.New("token: source, interval and log are needed")
	}
	return &Ring{cfg: c}, nil
}

// Keys returns those that there are now.
func (r *Ring) Keys() Keys {
	if k := r.keys.Load(); k != nil {
		return *k
	}
	return nil
}

// Verify is that of the Keys that there are now.
func (r *Ring) Verify(token string, now time.Time) (agent string, err error) {
	return r.Keys().Verify(token, now)
}

// Load reads the Keys once. What cannot be read or used changes nothing; but what is not there
// any more is none. It must not be called while Run runs.
func (r *Ring) Load(ctx context.Context) error {
	text, err := r.cfg.Read(ctx)
	gone := errors.Is(err, fs.ErrNotExist)
	if err != nil && !gone {
		return fmt.Errorf("token: %w", err)
	}
	var keys Keys
	if !gone {
		if r.text != nil && bytes.Equal(text, r.text) {
			return nil
		}
		if keys, err = ParseKeys(text); err != nil {
			return err
		}
	}
	if had := r.Keys(); len(had)+len(keys) > 0 {
		r.tell(keys)
	}
	r.keys.Store(&keys)
	r.text = text
	return nil
}

func (r *Ring) tell(keys Keys) {
	if len(keys) == 0 {
		r.cfg.Log.Warn("the key that tokens are signed by is gone: no token is good any more")
		return
	}
	r.cfg.Log.Info("tokens are signed by a key that was read", zap.Stringer("key", keys[0]), zap.Int("others", len(keys)-1))
}

// Run reads them at once, and again and again, until ctx is done, and returns its cause. What
// cannot be used is told once if it is still so at the next look: it may just be written.
func (r *Ring) Run(ctx context.Context) error {
	t := time.NewTicker(r.cfg.Every)
	defer t.Stop()
	failed := 0
	for {
		err := r.Load(ctx)
		if failed++; err == nil {
			failed = 0
		}
		if failed == 2 && ctx.Err() == nil {
			r.cfg.Log.Warn("the keys of tokens cannot be read anew: those of before stay in use", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.C:
		}
	}
}
