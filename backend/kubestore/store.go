// Package kubestore keeps objects in a Kubernetes API: the Store, the Registry and the
// identity of a hub or a spoke that is a cluster.
//
// Objects are unstructured JSON: what this code does not know passes untouched. One
// reflector (the engine of an informer) per kind keeps a mirror of the cluster, of which
// every watch is shown its namespace; a Write is one merge patch of exactly the owned
// fields that differ, on the condition of the version that its caller has seen.
//
// # An API server that fails
//
// Nothing waits for ever. A Write or Remove is given up after 30 s, a list or a page of one
// after a minute, and a watch that shows nothing for 150 s, not even the bookmark that is
// due each minute, or not within 10 s what a Write has made, is begun anew where it was. A
// watch alone would end when the API server ends it, which one that hangs does not do.
//
// Lists and watches are tried again after at most 10 s, and the log is told when that
// begins and when it has ended. A store is what the last whole list and the changes since
// say: whatever fails, it shows nothing to be gone that an API server has not said, or left
// out of a list that it has given whole.
//
// A request that is answered by 429 with Retry-After makes all of them wait, see throttle.
// An answer that says conflict is ErrConflict only if the object has indeed changed, because
// nobody comes again to one that has not. What is forbidden may go away, as may all but what
// is wrong with the object itself: rights, quotas and webhooks change without the object.
package kubestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Config is what a Store is made of.
type Config struct {
	REST *rest.Config  // how to reach the API server
	Side resource.Side // whose cluster it is: it says how a copy is marked
	// Namespace, if set, is the only one that the store knows: then it needs no right in
	// any other.
	Namespace string
	// Home is the namespace of Argo CD, where projects, repositories and keys are; "" is
	// Namespace.
	Home string
	// Kinds are those that the store knows: it needs no right on any other. None is all.
	Kinds []resource.Kind
	// MakeNamespaces has Write make the namespace of an object that is to be created, where it
	// is not there.
	MakeNamespaces bool
	// QPS and Burst limit the requests to the API server, where they are not 0; a QPS below
	// 0 is no limit.
	QPS   float32
	Burst int
	// Patience is how long a Write or Remove waits for its effect to be shown; 0 is 10 s.
	Patience time.Duration
	// Timeout is how long the API server may take for a Write or Remove, and half of what it
	// may take for a list; 0 is 30 s, half of what it gives itself.
	Timeout time.Duration
	// Silence is how long a watch may show nothing, not even a bookmark, before it is begun
	// anew; 0 is 150 s, more than twice what an API server lets pass between bookmarks.
	Silence time.Duration
	Log     *zap.Logger
}

// requestTime is how long the API server may take to answer one request.
const requestTime = 30 * time.Second

// Store is a backend.Store in a Kubernetes API. Its methods work while Run runs.
type Store struct {
	cfg    Config
	http   *http.Client
	client dynamic.Interface
	mirror *mirror
	follow map[resource.Kind]*follower
}

var (
	_ backend.Store  = (*Store)(nil)
	_ backend.Remote = (*Store)(nil)
)

// New returns a Store. It does not reach out.
func New(cfg Config) (*Store, error) {
	if cfg.REST == nil || cfg.Log == nil {
		return nil, errors.New("kubestore: REST and Log must be set")
	}
	cfg.Home = cmp.Or(cfg.Home, cfg.Namespace)
	if cfg.Home == "" {
		return nil, errors.New("kubestore: Home must be set, or Namespace")
	}
	if len(cfg.Kinds) == 0 {
		cfg.Kinds = kinds()
	}
	cfg.Patience = cmp.Or(cfg.Patience, 10*time.Second)
	cfg.Timeout = cmp.Or(cfg.Timeout, requestTime)
	limits := rest.CopyConfig(cfg.REST)
	limits.QPS, limits.Burst = cmp.Or(cfg.QPS, limits.QPS), cmp.Or(cfg.Burst, limits.Burst)
	c, err := connect(limits, cfg.Log)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfigAndClient(c.rest, c.http)
	if err != nil {
		return nil, fmt.Errorf("kubestore: %w", err)
	}
	s := &Store{
		cfg: cfg, http: c.http, client: client,
		mirror: newMirror(cfg.Side, cfg.Log, cfg.Kinds),
		follow: map[resource.Kind]*follower{},
	}
	for kind := range s.mirror.kinds {
		s.follow[kind] = newFollower(string(kind), cfg.Log)
		s.follow[kind].silence, s.follow[kind].patient = cmp.Or(cfg.Silence, defaultSilence), 2*cfg.Timeout
	}
	return s, nil
}

// Run keeps the mirror of the cluster until ctx is done, and returns the cause. An API
// server that cannot be reached is tried again for ever.
func (s *Store) Run(ctx context.Context) error {
	defer s.http.CloseIdleConnections()
	g, ctx := errgroup.WithContext(ctx)
	for kind := range s.mirror.kinds {
		only, client := layouts[kind].only, s.resource(kind, s.scope(kind))
		g.Go(func() error {
			return follow(ctx, s.follow[kind], sink{s.mirror, kind},
				func(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
					return client.List(ctx, only.narrow(o))
				},
				func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
					return client.Watch(ctx, only.narrow(o))
				})
		})
	}
	return g.Wait()
}

// Away implements backend.Remote: it is since when one of the kinds has not been followed. An API server
// that is cut off without a word is noticed once a watch has been silent for too long, or the connection.
func (s *Store) Away() (since time.Time, why error) {
	var all backend.Remotes
	for _, f := range s.follow {
		all = append(all, f)
	}
	return all.Away()
}

// scope returns the only namespace in which there are objects of a kind, "" for all.
func (s *Store) scope(kind resource.Kind) string {
	if layouts[kind].home {
		return s.cfg.Home
	}
	return s.cfg.Namespace
}

func (s *Store) resource(kind resource.Kind, namespace string) dynamic.ResourceInterface {
	return s.client.Resource(layouts[kind].resource).Namespace(namespace)
}

// Watch implements backend.Store. It waits until the cluster is listed. Objects are shown
// in the order of their keys.
func (s *Store) Watch(ctx context.Context, scope backend.Scope, f func(backend.Event) error) error {
	err := s.listed(ctx)
	if err == nil {
		err = s.mirror.watch(scope)(ctx, f)
	}
	return fmt.Errorf("kubestore: watch: %w", err)
}

func (s *Store) listed(ctx context.Context) error {
	select {
	case <-s.mirror.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Write implements backend.Store. A field whose value is null cannot be written, and is
// left out.
func (s *Store) Write(ctx context.Context, want resource.Object) (resource.Object, error) {
	stored, err := s.write(ctx, want)
	if err != nil {
		return resource.Object{}, fmt.Errorf("kubestore: write %s: %w", want.Key, discreet(want.Key.Kind, err))
	}
	return stored, nil
}

func (s *Store) write(ctx context.Context, want resource.Object) (resource.Object, error) {
	cur, err := s.current(ctx, want.Key, want.Version)
	if err != nil {
		return resource.Object{}, err
	}
	if err := layouts[want.Key.Kind].only.admits(want); err != nil {
		return resource.Object{}, err
	}
	stored, err := s.request(ctx, cur, want)
	switch {
	case apierrors.IsAlreadyExists(err):
		stored, err = s.uncover(ctx, want, err)
	case cur.Version == "" && noNamespace(err, want.Key.Namespace):
		stored, err = s.settle(ctx, want, err)
	}
	if err != nil {
		return resource.Object{}, s.explain(ctx, want.Key, cur, err)
	}
	return stored, s.shown(ctx, want.Key, func(ctx context.Context) error {
		return s.mirror.reached(ctx, want.Key.Kind, stored.Version)
	})
}

// current returns the record of k, which must be of that version, "" for none.
func (s *Store) current(ctx context.Context, k resource.Key, version string) (record, error) {
	if err := s.check(k); err != nil {
		return record{}, err
	}
	if err := s.listed(ctx); err != nil {
		return record{}, err
	}
	cur := s.mirror.get(k)
	if cur.Version != version {
		return record{}, backend.ErrConflict
	}
	return cur, nil
}

// request makes the one request of a Write.
func (s *Store) request(ctx context.Context, cur record, want resource.Object) (resource.Object, error) {
	l, now := layouts[want.Key.Kind], time.Now().UTC().Format(time.RFC3339)
	client := s.resource(want.Key.Kind, want.Key.Namespace)
	ctx, cancel := s.limit(ctx)
	defer cancel()
	var u *unstructured.Unstructured
	if cur.Version == "" {
		object, err := l.create(s.cfg.Side, want, now)
		if err != nil {
			return resource.Object{}, err
		}
		u, err = decode(object)
		if err == nil {
			u, err = client.Create(ctx, u, metav1.CreateOptions{FieldManager: FieldManager})
		}
		if err != nil {
			return resource.Object{}, told(ctx, err)
		}
	} else {
		patch, err := l.patch(s.cfg.Side, cur, want, now)
		if err != nil || patch == "" {
			return cur.Object, err
		}
		u, err = client.Patch(ctx, want.Key.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: FieldManager})
		if err != nil {
			return resource.Object{}, told(ctx, err)
		}
	}
	return l.read(want.Key.Kind, s.cfg.Side, u).Object, nil
}

// limit returns the context of one request.
func (s *Store) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	late := fmt.Errorf("the API server has not answered within %v", s.cfg.Timeout)
	return context.WithTimeoutCause(logTo(ctx, s.cfg.Log), s.cfg.Timeout, late)
}

// decode gives numbers the types that the client's encoder takes. They stay what the API
// server makes of them: it, too, keeps integers of 64 bits and else floating point.
func decode(object map[string]any) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(resource.Canonical(object))); err != nil {
		return nil, fmt.Errorf("%w: %w", backend.ErrRefused, err)
	}
	return u, nil
}

// Remove implements backend.Store.
func (s *Store) Remove(ctx context.Context, k resource.Key, version string) error {
	if err := s.remove(ctx, k, version); err != nil {
		return fmt.Errorf("kubestore: remove %s: %w", k, discreet(k.Kind, err))
	}
	return nil
}

func (s *Store) remove(ctx context.Context, k resource.Key, version string) error {
	cur, err := s.current(ctx, k, version)
	if err != nil {
		return err
	}
	if version == "" { // and there is none
		return backend.ErrConflict
	}
	foreground, uid := metav1.DeletePropagationForeground, types.UID(cur.UID)
	request, cancel := s.limit(ctx)
	defer cancel()
	err = s.resource(k.Kind, k.Namespace).Delete(request, k.Name, metav1.DeleteOptions{
		PropagationPolicy: &foreground,
		Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
	})
	if err != nil {
		return s.explain(ctx, k, cur, told(request, err))
	}
	return s.shown(ctx, k, func(ctx context.Context) error {
		return s.mirror.until(ctx, func() bool {
			now := s.mirror.kinds[k.Kind].records[k.Namespace][k.Name]
			return now.UID != cur.UID || now.Deleting
		})
	})
}

// shown returns once arrived has returned and all watches have shown what the mirror then
// holds of k. What takes longer than Patience is an error that may go away: the change
// is made, but whoever asked cannot be told its effect.
func (s *Store) shown(ctx context.Context, k resource.Key, arrived func(context.Context) error) error {
	late := fmt.Errorf("the change was made, but not shown within %v", s.cfg.Patience)
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Patience, late)
	defer cancel()
	if err := arrived(ctx); err != nil {
		s.follow[k.Kind].doubt(s.cfg.Patience)
		return err
	}
	return s.mirror.feed.Shown(ctx, k)
}
