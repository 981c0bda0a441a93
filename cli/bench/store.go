package bench

import (
	"context"
	"sync"
	"time"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A slowStore takes its time for each write, as an API server does, and takes note of
// those that were done.
type slowStore struct {
	backend.Store
	delay time.Duration

	mu     sync.Mutex
	writes []write // those not taken yet
	bad    error   // why one could not be taken note of
}

// Write implements backend.Store.
func (s *slowStore) Write(ctx context.Context, want resource.Object) (resource.Object, error) {
	select {
	case <-time.After(s.delay):
	case <-ctx.Done():
		return resource.Object{}, context.Cause(ctx)
	}
	stored, err := s.Store.Write(ctx, want)
	if err == nil {
		s.note(stored, time.Now())
	}
	return stored, err
}

func (s *slowStore) note(o resource.Object, at time.Time) {
	app, n, err := read(o)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.bad = err
		return
	}
	s.writes = append(s.writes, write{App: app, N: n, At: at.UnixNano()})
}

// take returns what was written since the last call.
func (s *slowStore) take() ([]write, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.writes
	s.writes = nil
	return out, s.bad
}

// read returns which Application an object is, and the number that it carries.
func read(o resource.Object) (app, n int, err error) {
	if app, err = appNamed(o.Key.Name); err != nil {
		return 0, 0, err
	}
	n, err = number(o.Parts[resource.Spec])
	return app, n, err
}
