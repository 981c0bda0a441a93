package kubestore

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

const spec = `{"destination":{"namespace":"guestbook","server":"https://kubernetes.default.svc"},"project":"default",` +
	`"source":{"path":"guestbook","repoURL":"https://git.example.com/apps.git"}}`

func app(namespace, name string) resource.Object {
	return resource.Object{
		Key:   resource.Key{Kind: resource.Application, Namespace: namespace, Name: name},
		Parts: resource.Parts{resource.Spec: spec},
	}
}

func label(text string) string {
	return resource.Metadata{Labels: map[string]string{"team": text}}.Text()
}

// events watches one namespace of a store, and returns its events after Synced.
func events(t *testing.T, s *Store, namespace string) <-chan backend.Event {
	out, synced := make(chan backend.Event, 1000), make(chan struct{})
	run(t, func(ctx context.Context) error {
		return s.Watch(ctx, backend.In(namespace), func(e backend.Event) error {
			if e.Synced != nil {
				close(synced)
			}
			out <- e
			return nil
		})
	})
	<-synced
	for e := range out {
		if e.Synced != nil {
			break
		}
	}
	return out
}

// TestOutcomeIsHeldBackUntilItIsShown writes while no watch gets through: the change is
// made, but its writer must not believe that it knows what there is.
func TestOutcomeIsHeldBackUntilItIsShown(t *testing.T) {
	c := startCluster(t)
	s, p := c.store(t, func(cfg *Config) { cfg.Patience = 500 * time.Millisecond })
	ns := c.namespace()
	seen := events(t, s, ns)
	p.lose(blind)
	late := func(err error) {
		t.Helper()
		require.ErrorContains(t, err, "not shown within")
		require.NotErrorIs(t, err, backend.ErrConflict)
		require.NotErrorIs(t, err, backend.ErrRefused)
	}
	_, err := s.Write(t.Context(), app(ns, "a"))
	late(err)
	p.set(nil)
	o := (<-seen).Put
	p.lose(blind)
	late(s.Remove(t.Context(), o.Key, o.Version))
	p.set(nil)
	require.True(t, (<-seen).Put.Deleting, "by the finalizer of a deletion in the foreground")
}

// TestWriteOnAStaleMirrorIsAConflict writes what is no longer so.
func TestWriteOnAStaleMirrorIsAConflict(t *testing.T) {
	c := startCluster(t)
	s, p := c.store(t)
	u := users{t, c.Dynamic(), p}
	ns := c.namespace()
	seen := events(t, s, ns)
	stored := map[string]resource.Object{}
	for _, name := range []string{"edited", "deleted", "successor"} {
		o, err := s.Write(t.Context(), app(ns, name))
		require.NoError(t, err)
		stored[name] = o
		<-seen
	}
	p.lose(blind)
	u.Edit(stored["edited"].Key, func(o *resource.Object) { o.Parts[resource.Meta] = label("theirs") })
	u.Delete(stored["deleted"].Key)
	u.Delete(stored["successor"].Key)
	u.Edit(stored["successor"].Key, func(o *resource.Object) { o.Parts[resource.Spec] = spec })
	u.Edit(app(ns, "new").Key, func(o *resource.Object) { o.Parts[resource.Spec] = spec })
	stored["new"] = app(ns, "new")
	for name, o := range stored {
		o.Parts[resource.Meta] = label("ours")
		_, err := s.Write(t.Context(), o)
		require.ErrorIs(t, err, backend.ErrConflict, name)
		require.ErrorIs(t, s.Remove(t.Context(), o.Key, o.Version), backend.ErrConflict, name)
	}
	require.Empty(t, u.get(stored["successor"].Key).GetLabels())
	require.Equal(t, "theirs", u.get(stored["edited"].Key).GetLabels()["team"])
}

// TestUIDIsAPrecondition shows what a cluster that went back in time may do: give a
// version again to another object.
func TestUIDIsAPrecondition(t *testing.T) {
	c := startCluster(t)
	s, _ := c.store(t)
	ns := c.namespace()
	o, err := s.Write(t.Context(), app(ns, "a"))
	require.NoError(t, err)
	o.UID = "11111111-2222-3333-4444-555555555555"
	want := o
	want.Parts[resource.Meta] = label("ours")
	_, err = s.request(t.Context(), record{Object: o}, want)
	require.ErrorIs(t, s.explain(t.Context(), o.Key, record{Object: o}, err), backend.ErrConflict)
}

// TestWhatAnswersMean is about answers that are not true: nothing has changed.
func TestWhatAnswersMean(t *testing.T) {
	c := startCluster(t)
	s, p := c.store(t)
	ns := c.namespace()
	seen := events(t, s, ns)
	stored, err := s.Write(t.Context(), app(ns, "a"))
	require.NoError(t, err)
	<-seen
	for _, test := range []struct {
		code   int32
		reason metav1.StatusReason
		want   error
	}{
		{http.StatusConflict, metav1.StatusReasonConflict, nil}, // as the quota of a namespace says it
		{http.StatusConflict, metav1.StatusReasonAlreadyExists, nil},
		{http.StatusForbidden, metav1.StatusReasonForbidden, nil},
		{http.StatusBadRequest, metav1.StatusReasonBadRequest, backend.ErrRefused},
		{http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, backend.ErrRefused},
		{http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, backend.ErrRefused},
		{http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, nil},
		{http.StatusInternalServerError, metav1.StatusReasonInternalError, nil},
		{http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, nil},
		{http.StatusGatewayTimeout, metav1.StatusReasonTimeout, nil},
		{http.StatusUnauthorized, metav1.StatusReasonUnauthorized, nil},
	} {
		p.set(func(r request) *metav1.Status {
			if r.method == http.MethodGet {
				return nil
			}
			return failure(test.code, test.reason, "told so")
		})
		changed := stored
		changed.Parts[resource.Meta] = label("x")
		for _, o := range []resource.Object{app(ns, "b"), changed} {
			_, err := s.Write(t.Context(), o)
			requireMeans(t, test.want, err)
		}
		requireMeans(t, test.want, s.Remove(t.Context(), stored.Key, stored.Version))
	}
	p.set(nil)
	require.Empty(t, seen)
}

// requireMeans demands that err is want, or, if that is nil, one that may go away.
func requireMeans(t *testing.T, want, err error) {
	t.Helper()
	require.Error(t, err)
	for _, sentinel := range []error{backend.ErrConflict, backend.ErrRefused} {
		require.Equal(t, sentinel == want, strings.Contains(err.Error(), sentinel.Error()), "%v", err)
	}
	if want != nil {
		require.ErrorIs(t, err, want)
	}
}

func TestWhatARealAPIServerRefuses(t *testing.T) {
	c := startCluster(t)
	s, _ := c.store(t)
	ns := c.namespace()
	write := func(o resource.Object) error {
		_, err := s.Write(t.Context(), o)
		return err
	}
	missing := app("no-such-namespace", "a")
	requireMeans(t, nil, write(missing))

	going := c.namespace()
	held := corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: going}}
	require.NoError(t, c.Dynamic().Resource(spaces).Delete(t.Context(), held.Name, metav1.DeleteOptions{}))
	requireMeans(t, nil, write(app(going, "a"))) // it stays Terminating: nothing here ends it

	for _, size := range []int{1_700_000, 2 << 20, 4 << 20} { // what etcd, its client and the API server refuse
		large := app(ns, "large")
		large.Parts[resource.Status] = `{"sourceType":"` + strings.Repeat("x", size) + `"}`
		requireMeans(t, backend.ErrRefused, write(large))
		stored, err := s.Write(t.Context(), app(ns, "grows"))
		require.NoError(t, err)
		stored.Parts[resource.Status] = large.Parts[resource.Status]
		requireMeans(t, backend.ErrRefused, write(stored))
		require.NoError(t, s.Remove(t.Context(), stored.Key, mirrored(s, stored.Key).Version))
		users{t, c.Dynamic(), nil}.Finish(stored.Key)
		require.NoError(t, s.mirror.until(t.Context(), func() bool {
			return s.mirror.kinds[resource.Application].records[ns]["grows"].Version == ""
		}))
	}

	for _, name := range []string{"", "a/b", "..", "UPPER", "a%"} {
		requireMeans(t, backend.ErrRefused, write(app(ns, name)))
	}
	odd := app(ns, "a")
	odd.Key.Kind = "Secret"
	requireMeans(t, backend.ErrRefused, write(odd))
	odd = app(ns, "a")
	odd.Parts[resource.Meta] = `{"labels":{"a":"no label\n"}}`
	requireMeans(t, backend.ErrRefused, write(odd))
}

func mirrored(s *Store, k resource.Key) resource.Object { return s.mirror.get(k).Object }

// TestStoreOfOneNamespace needs no right outside it, and knows nothing of the outside.
func TestStoreOfOneNamespace(t *testing.T) {
	c := startCluster(t)
	ns := c.namespace()
	s, p := c.store(t, func(cfg *Config) { cfg.Namespace, cfg.Side = ns, resource.Agent })
	u := users{t, c.Dynamic(), p}
	outside := c.namespace()
	u.Edit(app(outside, "a").Key, func(o *resource.Object) { o.Parts[resource.Spec] = spec })
	seen := events(t, s, "")
	o := app(ns, "a")
	o.Origin = resource.Origin{UID: "src", By: "the-hub"}
	o, err := s.Write(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, &o, (<-seen).Put)
	require.Equal(t, map[string]string{
		"argocd.argoproj.io/source-uid": "src", "argocd.argoproj.io/principal-uid": "the-hub",
	}, u.get(o.Key).GetAnnotations())
	require.Empty(t, u.get(o.Key).GetLabels())
	_, err = s.Write(t.Context(), app(outside, "b"))
	requireMeans(t, backend.ErrRefused, err)
	require.Empty(t, seen)
}

// TestWrittenObject looks at what stands in the cluster, and at what must still stand
// there after a write that has to do with none of it.
func TestWrittenObject(t *testing.T) {
	c := startCluster(t)
	s, p := c.store(t)
	u := users{t, c.Dynamic(), p}
	ns := c.namespace()
	seen := events(t, s, ns)
	o := app(ns, "a")
	o.Origin = resource.Origin{UID: "src", By: "edge"}
	o.Parts[resource.Spec] = strings.Replace(spec, `"project"`, `"revisionHistoryLimit":9007199254740993,"project"`, 1)
	o.Parts[resource.Meta], o.Parts[resource.OpID], o.Parts[resource.Fault] = label("blue"), "op-1", "it failed"
	_, err := s.Write(t.Context(), o)
	require.NoError(t, err)
	<-seen
	raw := u.get(o.Key)
	require.Equal(t, map[string]string{"team": "blue", "argocd-agent.argoproj-labs.io/agent-name": "edge"}, raw.GetLabels())
	require.Equal(t, map[string]string{"argocd.argoproj.io/source-uid": "src", "argocd-agent.argoproj-labs.io/operation-id": "op-1"}, raw.GetAnnotations())
	condition := conditionsOf(raw.Object)[0].(map[string]any)
	require.Equal(t, "AgentError", condition["type"])
	require.Equal(t, "it failed", condition["message"])
	since, err := time.Parse(time.RFC3339, condition["lastTransitionTime"].(string))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), since, time.Minute)
	require.Equal(t, int64(9007199254740993), raw.Object["spec"].(map[string]any)["revisionHistoryLimit"])

	u.patch(o.Key, `{"metadata":{"annotations":{"argocd.argoproj.io/hydrate":"normal","notified.notifications.argoproj.io":"{}",
		"kubectl.kubernetes.io/last-applied-configuration":"{}"},"finalizers":["post-delete-finalizer.argocd.argoproj.io/x"],
		"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"y"}]},
		"status":{"conditions":[{"type":"AgentError","message":"it failed"},{"type":"DeletionHeld","message":"held"}]}}`)
	now := *(<-seen).Put
	require.Empty(t, now.Parts[resource.Status])
	require.Equal(t, "held", now.Parts[resource.Held])
	now.Origin, now.Parts = resource.Origin{}, resource.Parts{resource.Spec: spec}
	_, err = s.Write(t.Context(), now)
	require.NoError(t, err)
	raw = u.get(o.Key)
	require.Empty(t, raw.GetLabels())
	require.Equal(t, map[string]string{
		"argocd.argoproj.io/hydrate": "normal", "notified.notifications.argoproj.io": "{}", "kubectl.kubernetes.io/last-applied-configuration": "{}",
	}, raw.GetAnnotations())
	require.Equal(t, []string{"post-delete-finalizer.argocd.argoproj.io/x"}, raw.GetFinalizers())
	require.Len(t, raw.GetOwnerReferences(), 1)
	require.Empty(t, conditionsOf(raw.Object))
	require.NotContains(t, raw.Object["spec"], "revisionHistoryLimit")
}

func TestRunLeavesNothing(t *testing.T) {
	c := startCluster(t)
	before := goleak.IgnoreCurrent()
	s, err := New(Config{REST: c.RESTConfig(), Home: "default", Log: zaptest.NewLogger(t)})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	require.ErrorIs(t, s.Watch(ctx, backend.Scope{}, func(e backend.Event) error {
		if e.Synced != nil {
			stop()
		}
		return nil
	}), context.Canceled)
	require.ErrorIs(t, <-ended, context.Canceled)
	require.NoError(t, goleak.Find(before))
}

func TestNewChecksItsConfig(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "REST and Log")
	_, err = NewHome(HomeConfig{})
	require.ErrorContains(t, err, "Namespace")
}

func conditionsOf(object map[string]any) []any {
	list, _, _ := unstructured.NestedFieldNoCopy(object, "status", "conditions")
	out, _ := list.([]any)
	return out
}
