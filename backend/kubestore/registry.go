package kubestore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/argocd-fabric/argocd-agent/backend"
)

// A Registry is a backend.Registry that follows the cluster secrets of a hub. It reads
// their labels only: no credential comes into its hands.
type Registry struct{ home *Home }

var _ backend.Registry = Registry{}

// Registry returns the registry of the agents.
func (h *Home) Registry() Registry { return Registry{h} }

// Watch implements backend.Registry.
func (r Registry) Watch(ctx context.Context, f func([]backend.Agent) error) error {
	client := r.home.metadata.Resource(secrets).Namespace(r.home.cfg.Namespace)
	found := &entries{all: map[string]entry{}, changed: make(chan struct{}, 1)}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		f := newFollower("cluster secrets", r.home.cfg.Log)
		defer r.home.following(f)()
		return follow(ctx, f, found,
			func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
				o.LabelSelector = clusterSecrets
				return client.List(ctx, o)
			},
			func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				o.LabelSelector = clusterSecrets
				return client.Watch(ctx, o)
			})
	})
	g.Go(func() error { return r.tell(ctx, found, f) })
	if err := g.Wait(); err != nil {
		return fmt.Errorf("kubestore: registry: %w", err)
	}
	return nil
}

// tell calls f whenever the agents have changed, and reports each bad entry once.
func (r Registry) tell(ctx context.Context, found *entries, f func([]backend.Agent) error) error {
	var told []backend.Agent
	complaints := map[string]string{}
	for first := true; ; first = false {
		select {
		case <-found.changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		agents, bad := r.home.read(found.list())
		for secret, err := range bad {
			if complaints[secret] != err.Error() {
				complaints[secret] = err.Error()
				r.home.cfg.Log.Error("agent left out", zap.Error(err))
			}
		}
		maps.DeleteFunc(complaints, func(secret, _ string) bool { return bad[secret] == nil })
		if !first && slices.Equal(agents, told) {
			continue
		}
		told = agents
		if err := f(slices.Clone(agents)); err != nil {
			return err
		}
	}
}

// entries is where a reflector puts the cluster secrets.
type entries struct {
	mu      sync.Mutex
	all     map[string]entry
	listed  bool
	changed chan struct{} // holds a token if there is something to tell
}

func (e *entries) list() []entry {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.all))
}

// edit changes what there is by f, which is given the entries that objs are.
func (e *entries) edit(objs []any, f func([]entry)) error {
	var read []entry
	for _, obj := range objs {
		o, err := meta.Accessor(obj)
		if err != nil {
			return fmt.Errorf("kubestore: %w", err)
		}
		read = append(read, entry{o.GetName(), o.GetLabels()})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	f(read)
	if e.listed {
		select {
		case e.changed <- struct{}{}:
		default:
		}
	}
	return nil
}

func (e *entries) put(read []entry) {
	for _, r := range read {
		e.all[r.secret] = r
	}
}

// Add implements cache.ReflectorStore.
func (e *entries) Add(obj any) error { return e.edit([]any{obj}, e.put) }

// Update implements cache.ReflectorStore.
func (e *entries) Update(obj any) error { return e.edit([]any{obj}, e.put) }

// Delete implements cache.ReflectorStore.
func (e *entries) Delete(obj any) error {
	return e.edit([]any{obj}, func(read []entry) { delete(e.all, read[0].secret) })
}

// Replace implements cache.ReflectorStore.
func (e *entries) Replace(objs []any, _ string) error {
	return e.edit(objs, func(read []entry) {
		clear(e.all)
		e.put(read)
		e.listed = true
	})
}

// Resync implements cache.ReflectorStore.
func (e *entries) Resync() error { return nil }
