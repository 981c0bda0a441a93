package matrix

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/e2e/stack/stacktest"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// inMemory is the ground of stores in memory, and of programs within the test.
type inMemory struct{ stack *stack.Stack }

func openMemory(t *testing.T) ground {
	return inMemory{stacktest.Start(t, stack.Config{})} // for its ports
}

func (g inMemory) port() (int, error) { return g.stack.Port() }

func (inMemory) cluster(_ *world, s *side) (cluster, error) {
	return store{memstore.New(memstore.Config{Name: s.home})}, nil
}

func (inMemory) programs(w *world) (principal, agent program, err error) {
	return newInside(w.runPrincipal), newInside(w.runAgent), nil
}

// A store is a cluster in memory.
type store struct{ *memstore.Store }

func (s store) objects(context.Context) (objects, error) { return s.All(), nil }

func (s store) follow(ctx context.Context, f func(resource.Object)) error {
	return s.Watch(ctx, backend.Scope{}, func(e backend.Event) error {
		if e.Put != nil && e.Put.Key.Kind == resource.Application {
			f(*e.Put)
		}
		return nil
	})
}

func (s store) edit(_ context.Context, k resource.Key, f func(*resource.Object)) error {
	s.Edit(k, f)
	return nil
}

func (s store) remove(_ context.Context, k resource.Key) error {
	s.Delete(k)
	return nil
}

func (s store) finish(_ context.Context, k resource.Key) error {
	s.Finish(k)
	return nil
}

func (s store) writes(ctx context.Context) (revision string, err error) {
	listed := errors.New("it is listed")
	err = s.Watch(ctx, backend.Scope{}, func(e backend.Event) error {
		if e.Synced == nil {
			return nil
		}
		revision = fmt.Sprint(e.Synced.Revision)
		return listed
	})
	if errors.Is(err, listed) {
		err = nil
	}
	return revision, err
}
