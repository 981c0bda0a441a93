package fleet

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A Write is one that a cluster has made of an Application's spec. It belongs to the change of
// its number.
type Write struct {
	App    int   // those of the first agent first
	N      int   // the number that was written
	Issued int64 // when it was begun, in nanoseconds since 1970
	At     int64 // when it had returned
}

// A slowStore takes its time for each write, as an API server does, and takes note of those
// that were done.
type slowStore struct {
	backend.Store
	delay   time.Duration
	noted   bool
	first   int // number of the agent's first Application
	watches atomic.Int64

	mu     sync.Mutex
	writes []Write // those not taken yet
	bad    error   // why one could not be taken note of
}

// Watch implements backend.Store.
func (s *slowStore) Watch(ctx context.Context, scope backend.Scope, f func(backend.Event) error) error {
	s.watches.Add(1)
	return s.Store.Watch(ctx, scope, f)
}

// Write implements backend.Store.
func (s *slowStore) Write(ctx context.Context, want resource.Object) (resource.Object, error) {
	issued := time.Now()
	if s.delay > 0 {
		select {
		case <-time.After(s.delay):
		case <-ctx.Done():
			return resource.Object{}, context.Cause(ctx)
		}
	}
	stored, err := s.Store.Write(ctx, want)
	if err == nil && s.noted && stored.Key.Kind == resource.Application {
		s.note(stored, issued, time.Now())
	}
	return stored, err
}

func (s *slowStore) note(o resource.Object, issued, at time.Time) {
	app, err := appNamed(o.Key.Name)
	n, err2 := Number(o)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || err2 != nil {
		if s.bad = err; err == nil {
			s.bad = err2
		}
		return
	}
	s.writes = append(s.writes, Write{App: s.first + app, N: n, Issued: issued.UnixNano(), At: at.UnixNano()})
}

// take returns what was written since the last call.
func (s *slowStore) take() ([]Write, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.writes
	s.writes = nil
	return out, s.bad
}
