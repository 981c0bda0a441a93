package backend

import (
	"sync"
	"time"
)

// A Remote is a Store of what other processes keep, and which may be out of reach. What it has
// shown stays shown meanwhile, and may not be so any more.
type Remote interface {
	// Away returns since when it is not known what there is, and why; the zero time if it is known.
	Away() (since time.Time, why error)
}

// Remotes are one Remote: it is away while one of them is.
type Remotes []Remote

// Away implements Remote: it is that of the one that has been away for longest.
func (r Remotes) Away() (since time.Time, why error) {
	for _, one := range r {
		if at, err := one.Away(); !at.IsZero() && (since.IsZero() || at.Before(since)) {
			since, why = at, err
		}
	}
	return since, why
}

// A Reach remembers how attempts to follow something went, for a Remote. The zero Reach is that
// none has failed. Methods may be called concurrently.
type Reach struct {
	mu    sync.Mutex
	since time.Time
	why   error
}

// Note takes in how an attempt went.
func (r *Reach) Note(now time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.since = time.Time{}
	case r.since.IsZero():
		r.since = now
	}
	r.why = err
}

// Away returns when the first attempt has failed after which none has succeeded, and why the last
// has; the zero time if there is none.
func (r *Reach) Away() (since time.Time, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since, r.why
}
