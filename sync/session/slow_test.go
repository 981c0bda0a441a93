package session_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A troubledStore takes its time for every write, and does as bad says, if there is
// something, with those of one object.
type troubledStore struct {
	backend.Store
	delay time.Duration
	sick  resource.Key
	bad   func(context.Context) error

	mu    sync.Mutex
	tries []time.Time // of the sick object
	ends  []time.Time // of the writes of others
}

// Write implements backend.Store.
func (s *troubledStore) Write(ctx context.Context, want resource.Object) (resource.Object, error) {
	if want.Key == s.sick {
		s.mu.Lock()
		s.tries = append(s.tries, time.Now())
		bad := s.bad
		s.mu.Unlock()
		if bad != nil {
			return resource.Object{}, bad(ctx)
		}
	}
	time.Sleep(s.delay)
	stored, err := s.Store.Write(ctx, want)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = append(s.ends, time.Now())
	return stored, err
}

func (s *troubledStore) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bad = nil
}

// ways are those in which the writes of one object may fail.
func ways() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"fails": func(context.Context) error { return errors.New("not now") },
		"conflict": func(context.Context) error {
			return errors.New("object has another version, though it has not changed")
		},
		"hangs until its time is up": func(context.Context) error {
			time.Sleep(30 * time.Second)
			return errors.New("the API server has not answered within 30s")
		},
	}
}

// TestOneObjectWhoseWritesFailDelaysNoOther changes two hundred objects a second, for ten
// seconds, beside one whose writes always fail, on a store that takes 105 ms for each.
func TestOneObjectWhoseWritesFailDelaysNoOther(t *testing.T) {
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				store := &troubledStore{Store: r.spoke.cluster, delay: 105 * time.Millisecond, sick: app("sick"), bad: way}
				r.spoke.store = store
				r.start()
				r.hub.set("sick", resource.Spec, `{}`)
				settle(0)
				began := time.Now()
				const changes = 200 * 10
				for i := range changes {
					r.hub.set(fmt.Sprint(i%1000), resource.Spec, fmt.Sprintf(`{"n":%d}`, i))
					time.Sleep(time.Second / 200)
				}
				settle(200 * time.Millisecond)
				for i := changes - 1000; i < changes; i++ {
					require.Equal(t, fmt.Sprintf(`{"n":%d}`, i), r.spoke.part(fmt.Sprint(i%1000), resource.Spec))
				}
				require.Len(t, store.ends, changes, "each change was written: none had to wait for a worker")
				require.LessOrEqual(t, store.ends[changes-1].Sub(began), 10*time.Second+200*time.Millisecond)
				settle(10 * time.Minute)
				require.Greater(t, len(store.tries), 4, "it is tried again")
				require.Less(t, len(store.tries), 15, "and not all the time")

				store.heal()
				settle(10 * time.Minute)
				require.Equal(t, `{}`, r.spoke.part("sick", resource.Spec))
				require.True(t, r.spoke.Status().Engine.InStep)
			})
		})
	}
}

// TestAllWritesFailForAWhile is about an API server that answers nobody: all is written once
// it does.
func TestAllWritesFailForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		down := &downStore{Store: r.spoke.cluster, until: time.Now().Add(10 * time.Minute)}
		r.spoke.store = down
		r.start()
		for i := range 200 {
			r.hub.set(fmt.Sprint(i), resource.Spec, `{}`)
		}
		settle(9 * time.Minute)
		require.Empty(t, r.spoke.cluster.All())
		settle(7 * time.Minute)
		require.Len(t, r.spoke.cluster.All(), 200)
	})
}

// A downStore lets every write hang for its time until it is up.
type downStore struct {
	backend.Store
	until time.Time
}

// Write implements backend.Store.
func (s *downStore) Write(ctx context.Context, want resource.Object) (resource.Object, error) {
	if time.Now().Before(s.until) {
		time.Sleep(30 * time.Second)
		return resource.Object{}, errors.New("the API server has not answered within 30s")
	}
	return s.Store.Write(ctx, want)
}
