package policy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var nop = zap.NewNop()

// TestWhatIsTouchedIsWhatWasLookedUp shows what reaches the API server of requests that change
// something.
func TestWhatIsTouchedIsWhatWasLookedUp(t *testing.T) {
	g := guard(t, world(), false, "")
	for _, c := range []struct{ request, body string }{
		{`PATCH+merge /apis/apps/v1/namespaces/shop/deployments/web {"spec":{"replicas":12345678901234567890}}`, `{"metadata":{"uid":"uid-web"},"spec":{"replicas":12345678901234567890}}`},
		{`PATCH+strategic /apis/apps/v1/namespaces/shop/deployments/web {"metadata":{"labels":{"a":"b"},"uid":null}}`, `{"metadata":{"labels":{"a":"b"},"uid":"uid-web"}}`},
		{`PATCH+json /apis/apps/v1/namespaces/shop/deployments/web [{"op":"remove","path":"/a"}]`, `[{"op":"test","path":"/metadata/uid","value":"uid-web"},{"op":"remove","path":"/a"}]`},
		{"PATCH+apply /apis/apps/v1/namespaces/shop/deployments/web spec:\n  paused: true\n", `{"metadata":{"uid":"uid-web"},"spec":{"paused":true}}`},
		{`PATCH+merge /apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/canary/status {"status":{"abort":true}}`, `{"metadata":{"resourceVersion":"41","uid":"uid-canary"},"status":{"abort":true}}`},
		{`PATCH+json /apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/canary/status []`, `[{"op":"test","path":"/metadata/uid","value":"uid-canary"}]`},
		{`DELETE /apis/apps/v1/namespaces/shop/deployments/web`, `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"uid-web"}}`},
		{`DELETE /apis/apps/v1/namespaces/shop/deployments/web?dryRun=All&gracePeriodSeconds=0&propagationPolicy=Orphan`,
			`{"apiVersion":"v1","dryRun":["All"],"gracePeriodSeconds":0,"kind":"DeleteOptions","preconditions":{"uid":"uid-web"},"propagationPolicy":"Orphan"}`},
		{`DELETE /apis/apps/v1/namespaces/shop/deployments/web {"propagationPolicy":"Background","preconditions":{"resourceVersion":"7"}}`,
			`{"preconditions":{"resourceVersion":"7","uid":"uid-web"},"propagationPolicy":"Background"}`},
		{`POST /apis/batch/v1/namespaces/shop/jobs {"metadata":{"name":"x","ownerReferences":[]},"metadata":{"ownerReferences":[{"apiVersion":"batch/v1","kind":"CronJob","name":"nightly","uid":"uid-nightly"}]}}`,
			`{"metadata":{"ownerReferences":[{"apiVersion":"batch/v1","kind":"CronJob","name":"nightly","uid":"uid-nightly"}]}}`},
	} {
		got := g.ask(t, c.request)
		require.Equal(t, "pass", got.outcome, "%s: %s", c.request, got.message)
		require.Equal(t, c.body, got.body, c.request)
	}
}

func TestALargeBodyIsReadOnlyWhereItIsNeeded(t *testing.T) {
	body := `{"a":"` + strings.Repeat("x", bound) + `"}`
	got := guard(t, world(), false, "").ask(t, "PATCH+merge /apis/apps/v1/namespaces/shop/deployments/web "+body)
	require.Equal(t, "413", got.outcome)
	got = guard(t, world(), false, "apps/*").ask(t, "PATCH+merge /apis/apps/v1/namespaces/shop/deployments/web "+body)
	require.Equal(t, body, got.body)
}

func TestARefusalSaysWhatWouldAllowIt(t *testing.T) {
	for request, want := range map[string]string{
		"GET /apis/apps/v1/deployments":                           "live access: list deployments.apps: rule list: of many objects at once only events are read, those of one managed object; the agent allows it with --live-allow=apps/Deployment",
		"POST /api/v1/namespaces/shop/pods/web-1-a/exec":          "live access: create pods/exec web-1-a in shop: rule exec: commands in pods are off; the agent allows it with --live-allow=exec",
		"GET /api/v1/namespaces/shop/pods/stray":                  "live access: get pods stray in shop: rule read: no Application of this cluster manages the object; the agent allows it with --live-allow=Pod",
		"POST /api/v1/namespaces/shop/serviceaccounts/a/token {}": "live access: create serviceaccounts/token a in shop: rule escalation: it would give rights that the agent does not mean to give",
		"TRACE /api": `live access: trace /api: rule path: policy: "TRACE" is no method of the API`,
		"PATCH+json /api/v1/namespaces/shop/secrets/creds [{}]":    "live access: patch secrets creds in shop: rule secret-write: Secrets are read with their values masked, and deleted, but not written; deploy them by an Application",
		"PATCH+strategic /api/v1/namespaces/s/pods/p/resize {}":    "live access: patch pods/resize p in s: rule other: it is nothing that Argo CD asks for; the agent allows it with --live-allow=Pod",
		"PATCH /api/v1/namespaces/s/pods/p/ephemeralcontainers {}": "live access: patch pods/ephemeralcontainers p in s: rule debug: a container in a pod is as good as a command; the agent allows it with --live-allow=exec,Pod",
	} {
		require.Equal(t, want, guard(t, world(), false, "").ask(t, request).message)
	}
}

// TestWhatCannotBeFoundOutIsNoAllowance fails look-ups.
func TestWhatCannotBeFoundOutIsNoAllowance(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	for code, err := range map[string]error{
		"503": errors.New("connection refused"),
		"403": apierrors.NewForbidden(secrets, "creds", errors.New("no RBAC")),
		"404": apierrors.NewNotFound(secrets, "creds"),
	} {
		for _, request := range []string{
			"GET /api/v1/namespaces/shop/secrets/creds", "DELETE /api/v1/namespaces/shop/secrets/creds",
			"GET /api/v1/namespaces/shop/events?fieldSelector=involvedObject.uid%3Duid-web-1-a",
		} {
			m := world()
			m.err = err
			require.Equal(t, code, guard(t, m, false, "*").ask(t, request).outcome, request)
		}
	}
	// Of a list that is allowed, too, the settings say what is to be masked.
	m := &unset{world()}
	p, err := New(Config{Namespace: "argocd", Objects: m, Log: nop, Terms: Terms{Allow: Allow{kinds: []string{"*/*"}}}})
	require.NoError(t, err)
	w := httptest.NewRecorder()
	p.Guard(nil).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/secrets", nil))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.NotEmpty(t, w.Header().Get("Retry-After"))
}

// unset has no settings.
type unset struct{ *memory }

func (unset) Settings(context.Context) (Settings, error) {
	return Settings{}, errors.New("unreachable")
}

// TestAnOwnerThatIsUnknownDecidesOnlyIfItMust: one owner cannot be read, another is managed.
func TestAnOwnerThatIsUnknownDecidesOnlyIfItMust(t *testing.T) {
	m := world()
	m.put("ConfigMap/shop/two", "<Pod/unreadable", "<Deployment/web")
	m.put("ConfigMap/shop/one", "<Pod/unreadable")
	p, err := New(Config{Namespace: "argocd", Objects: &unreadable{m}, Log: nop})
	require.NoError(t, err)
	h := p.Guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {}))
	for name, code := range map[string]int{"two": 200, "one": 403} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/shop/configmaps/"+name, nil))
		require.Equal(t, code, w.Code)
	}
}

// unreadable has Pods that the agent may not read.
type unreadable struct{ *memory }

func (u unreadable) Get(ctx context.Context, k Kind, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	if name == "unreadable" {
		return nil, apierrors.NewForbidden(k.Resource.GroupResource(), name, errors.New("no RBAC"))
	}
	return u.memory.Get(ctx, k, namespace, name)
}

// TestSettingsHoldWithoutARestart changes how Argo CD tracks while a policy is at work.
func TestSettingsHoldWithoutARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := world()
		g := guard(t, m, false, "")
		const tracked, labelled = "GET /apis/apps/v1/namespaces/shop/deployments/web", "GET /api/v1/namespaces/shop/configmaps/labelled"
		require.Equal(t, "pass", g.ask(t, tracked).outcome)
		require.Equal(t, "pass", g.ask(t, labelled).outcome)
		for _, c := range []struct {
			Settings
			tracked, labelled string
		}{
			{Settings{Method: "label"}, "403", "pass"},
			{Settings{Method: "annotation"}, "pass", "403"},
			{Settings{Method: "annotation+label"}, "pass", "403"},
			{Settings{Method: "label", Label: "mine"}, "403", "403"},
			{Settings{Installation: "another"}, "403", "pass"},
		} {
			m.mu.Lock()
			m.settings = c.Settings
			m.mu.Unlock()
			time.Sleep(lifetime) // of the bubble's clock
			require.Equal(t, c.tracked, g.ask(t, tracked).outcome, "%+v", c)
			require.Equal(t, c.labelled, g.ask(t, labelled).outcome, "%+v", c)
		}
	})
}

// TestWhatIsGoneIsSoonForgotten removes an Application, and an owner, that were looked up.
func TestWhatIsGoneIsSoonForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := world()
		g := guard(t, m, false, "")
		const pod, web = "GET /api/v1/namespaces/shop/pods/web-1-a", "GET /apis/apps/v1/namespaces/shop/deployments/web"
		require.Equal(t, "pass", g.ask(t, pod).outcome)
		before := m.lookups
		require.Equal(t, "pass", g.ask(t, pod).outcome)
		require.Equal(t, before+1, m.lookups, "owners are kept for a while, the object is not")
		delete(m.objects, "replicasets.apps/shop/web-1")
		time.Sleep(lifetime) // of the bubble's clock
		require.Equal(t, "403", g.ask(t, pod).outcome)
		require.Equal(t, "pass", g.ask(t, web).outcome)
		delete(m.objects, "applications.argoproj.io/argocd/guestbook")
		time.Sleep(lifetime)
		require.Equal(t, "403", g.ask(t, web).outcome)
	})
}

func TestTheCacheIsBounded(t *testing.T) {
	var c cache[int, int]
	for i := range capacity + 10 {
		_, err := c.get(i, func() (int, error) { return i, nil })
		require.NoError(t, err)
	}
	require.LessOrEqual(t, len(c.kept), capacity)
	_, err := c.get(-1, func() (int, error) { return 0, errors.New("no") })
	require.Error(t, err)
	require.NotContains(t, c.kept, -1)
}

func TestAnEmptyListOfEventsIsOfItsTime(t *testing.T) {
	got := guard(t, world(), false, "").ask(t, "GET /api/v1/namespaces/shop/events?fieldSelector=involvedObject.uid%3Dquiet")
	var list map[string]any
	require.NoError(t, json.Unmarshal([]byte(got.message), &list))
	require.Equal(t, map[string]any{"kind": "EventList", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "7"}, "items": []any{}}, list)
}

func TestNewNeedsWhatItNeeds(t *testing.T) {
	_, err := New(Config{Namespace: "argocd", Objects: world()})
	require.Error(t, err)
	_, err = NewCluster(ClusterConfig{})
	require.Error(t, err)
}

func TestAllowIsReadAsWritten(t *testing.T) {
	for text, want := range map[string]string{
		"": "", " ": "", "exec": "exec", "exec, attach,port-forward": "exec,attach,port-forward", "*": "*",
		"Pod": "core/Pod", "core/*": "core/*", "apps/Deployment,cert-manager.io/*": "apps/Deployment,cert-manager.io/*",
	} {
		a, err := ParseAllow(text)
		require.NoError(t, err, text)
		require.Equal(t, want, a.String())
	}
	for _, text := range []string{"exe", "pods", "apps/deployments", "/Pod", "apps/", "apps/*/x", "*/Pod", "exec,,attach", "Apps/Deployment", "log"} {
		_, err := ParseAllow(text)
		require.ErrorContains(t, err, "is none of exec, attach, port-forward", text)
	}
}
