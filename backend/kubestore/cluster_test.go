package kubestore

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A cluster is a real API server with Argo CD's resource definitions, and nothing else.
type cluster struct {
	t *testing.T
	*stack.Cluster
}

// shared is the one API server of all tests, started by the first that needs it. Each
// test works in namespaces of its own.
var shared struct {
	sync.Mutex
	stack      *stack.Stack
	namespaces int
}

func TestMain(m *testing.M) {
	// The other one sleeps until a time of the clock outside of bubbles of synctest.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	code := m.Run()
	if shared.stack != nil {
		if err := shared.stack.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.RemoveAll(shared.stack.Dir())
	}
	os.Exit(code)
}

func startCluster(t *testing.T) cluster {
	shared.Lock()
	defer shared.Unlock()
	if shared.stack == nil {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute) // a cold build takes eight
		defer cancel()
		dir, err := os.MkdirTemp("", "kubestore")
		require.NoError(t, err)
		shared.stack, err = stack.Start(ctx, dir, stack.Config{
			Clusters: []stack.ClusterConfig{{Name: "hub", CRDs: true}},
			Output:   os.Stderr,
		})
		require.NoError(t, err)
	}
	return cluster{t, shared.stack.Cluster("hub")}
}

// namespace returns the name of a new namespace.
func (c cluster) namespace() string {
	shared.Lock()
	defer shared.Unlock()
	shared.namespaces++
	name := fmt.Sprintf("test-%d", shared.namespaces)
	require.NoError(c.t, c.Namespace(c.t.Context(), name))
	return name
}

// store runs a store over a proxy until the test is over.
func (c cluster) store(t *testing.T, change ...func(*Config)) (*Store, *proxy) {
	p := newProxy(t, c.RESTConfig())
	return c.behind(t, p, change...), p
}

// behind runs a store over p until the test is over.
func (c cluster) behind(t *testing.T, p *proxy, change ...func(*Config)) *Store {
	cfg := Config{REST: p.config(), Side: resource.Principal, Home: "default", Kinds: []resource.Kind{resource.Application}, QPS: -1, Log: zaptest.NewLogger(t)}
	for _, f := range change {
		f(&cfg)
	}
	s, err := New(cfg)
	require.NoError(t, err)
	run(t, s.Run)
	return s
}

// run runs a part until the test is over.
func run(t *testing.T, part func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- part(ctx) }()
	t.Cleanup(func() {
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// users work on the API server directly, under a name of their own.
type users struct {
	t      *testing.T
	client dynamic.Interface
	proxy  *proxy
}

func (u users) apps(k resource.Key) dynamic.ResourceInterface {
	return u.client.Resource(layouts[k.Kind].resource).Namespace(k.Namespace)
}

func (u users) get(k resource.Key) *unstructured.Unstructured {
	app, err := u.apps(k).Get(u.t.Context(), k.Name, metav1.GetOptions{})
	require.NoError(u.t, err)
	return app
}

func (u users) patch(k resource.Key, patch string) {
	_, err := u.apps(k).Patch(u.t.Context(), k.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "users"})
	require.NoError(u.t, err)
}

func (u users) Edit(k resource.Key, f func(*resource.Object)) {
	l := layouts[k.Kind]
	app, err := u.apps(k).Get(u.t.Context(), k.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		want := resource.Object{Key: k}
		f(&want)
		object, err := l.create(resource.Principal, want, "2026-01-02T03:04:05Z")
		require.NoError(u.t, err)
		made, err := decode(object)
		require.NoError(u.t, err)
		_, err = u.apps(k).Create(u.t.Context(), made, metav1.CreateOptions{FieldManager: "users"})
		require.NoError(u.t, err)
		return
	}
	require.NoError(u.t, err)
	cur := l.read(k.Kind, resource.Principal, app)
	want := cur.Object
	f(&want)
	patch, err := l.patch(resource.Principal, cur, want, "2026-01-02T03:04:05Z")
	require.NoError(u.t, err)
	if patch != "" {
		u.patch(k, patch)
	}
}

func (u users) Delete(k resource.Key) {
	require.NoError(u.t, u.apps(k).Delete(u.t.Context(), k.Name, metav1.DeleteOptions{}))
}

func (u users) Hold(k resource.Key) {
	app := u.get(k)
	app.SetFinalizers(append(app.GetFinalizers(), "example.com/hold"))
	_, err := u.apps(k).Update(u.t.Context(), app, metav1.UpdateOptions{FieldManager: "users"})
	require.NoError(u.t, err)
}

func (u users) Finish(k resource.Key) {
	app, err := u.apps(k).Get(u.t.Context(), k.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || app.GetDeletionTimestamp() == nil {
		return
	}
	u.patch(k, `{"metadata":{"finalizers":null}}`)
}

func (u users) Lose(k resource.Key) {
	u.unseen(k, func(f speech) speech { return f }, func() {
		u.patch(k, `{"metadata":{"finalizers":null}}`)
		u.Delete(k)
	})
}

// unseen does what no watch of objects like k that runs now will ever show: it ends them all, and who
// comes again, however late, is told that this is no longer known.
func (u users) unseen(k resource.Key, speaks func(speech) speech, do func()) {
	u.proxy.lose(speaks(expired))
	do()
	list, err := u.apps(k).List(u.t.Context(), metav1.ListOptions{Limit: 1})
	require.NoError(u.t, err)
	now, err := strconv.Atoi(list.GetResourceVersion())
	require.NoError(u.t, err)
	u.proxy.set(speaks(forgotten(now)))
}
