package kubestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
)

// Blocklist is the name of the ConfigMap that says who is not let in: keys are fingerprints of
// certificates, or names of agents, and values say why.
const Blocklist = "argocd-agent-tls-blocklist"

// Blocked returns who is not let in; nobody if there is no list.
func (h *Home) Blocked(ctx context.Context) (map[string]string, error) {
	u, err := h.client.Resource(configMaps).Namespace(h.cfg.Namespace).Get(ctx, Blocklist, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, h.unlisted("read", err)
	}
	return dataOf(u), nil
}

// Block changes who is not let in by change, which may be called again if somebody else has
// changed it meanwhile.
func (h *Home) Block(ctx context.Context, change func(map[string]string) error) error {
	client := h.client.Resource(configMaps).Namespace(h.cfg.Namespace)
	for {
		u, err := client.Get(ctx, Blocklist, metav1.GetOptions{})
		there := err == nil
		if apierrors.IsNotFound(err) {
			u, err = object(&corev1.ConfigMap{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
				ObjectMeta: metav1.ObjectMeta{Name: Blocklist, Namespace: h.cfg.Namespace},
			}), nil
		}
		if err != nil {
			return h.unlisted("read", err)
		}
		data := dataOf(u)
		if err := change(data); err != nil {
			return err
		}
		if err := unstructured.SetNestedStringMap(u.Object, data, "data"); err != nil {
			return h.unlisted("write", err)
		}
		if there {
			_, err = client.Update(ctx, u, metav1.UpdateOptions{FieldManager: FieldManager})
		} else {
			_, err = client.Create(ctx, u, metav1.CreateOptions{FieldManager: FieldManager})
		}
		// Whoever was faster has changed it: look again.
		if err == nil || !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return h.unlisted("write", err)
		}
	}
}

// WatchBlocked calls tell with who is not let in, now and whenever it is somebody else, until
// ctx is done.
func (h *Home) WatchBlocked(ctx context.Context, tell func(map[string]string)) error {
	client := h.client.Resource(configMaps).Namespace(h.cfg.Namespace)
	only := fields.OneTermEqualSelector("metadata.name", Blocklist).String()
	found := &sole{changed: make(chan struct{}, 1)}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		f := newFollower("blocklist", h.cfg.Log)
		defer h.following(f)()
		return follow(ctx, f, found,
			func(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
				o.FieldSelector = only
				return client.List(ctx, o)
			},
			func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				o.FieldSelector = only
				return h.watcher.Resource(configMaps).Namespace(h.cfg.Namespace).Watch(ctx, o)
			})
	})
	g.Go(func() error {
		for {
			select {
			case <-found.changed:
				tell(found.get())
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
	if err := g.Wait(); err != nil {
		return fmt.Errorf("kubestore: blocklist: %w", err)
	}
	return nil
}

func (h *Home) unlisted(act string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(known(err), fs.ErrPermission):
		return fmt.Errorf("kubestore: %s configmap %s/%s: %w; apply deploy/principal, which grants it", act, h.cfg.Namespace, Blocklist, known(err))
	}
	return fmt.Errorf("kubestore: %s configmap %s/%s: %w", act, h.cfg.Namespace, Blocklist, known(err))
}

// dataOf returns the data of a ConfigMap, never nil.
func dataOf(u *unstructured.Unstructured) map[string]string {
	data, _, _ := unstructured.NestedStringMap(u.Object, "data")
	if data == nil {
		data = map[string]string{}
	}
	return data
}

// sole is where a reflector puts the ConfigMap, of which there is one or none.
type sole struct {
	mu      sync.Mutex
	data    map[string]string
	changed chan struct{} // holds a token if there is something to tell
}

func (s *sole) get() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.data)
}

func (s *sole) set(data map[string]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data = data
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return nil
}

// Add implements cache.ReflectorStore.
func (s *sole) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *sole) Update(obj any) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("kubestore: a %T is no ConfigMap", obj)
	}
	return s.set(dataOf(u))
}

// Delete implements cache.ReflectorStore.
func (s *sole) Delete(any) error { return s.set(map[string]string{}) }

// Replace implements cache.ReflectorStore.
func (s *sole) Replace(objs []any, _ string) error {
	if len(objs) == 0 {
		return s.set(map[string]string{})
	}
	return s.Update(objs[0])
}

// Resync implements cache.ReflectorStore.
func (s *sole) Resync() error { return nil }
