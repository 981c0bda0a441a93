package command

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/proxy/kubeapi/policy"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func TestWhatIsLiveFollowsTheMode(t *testing.T) {
	managed, autonomous := resource.Rules{Mode: resource.Managed}, resource.Rules{Mode: resource.Autonomous}
	for _, c := range []struct {
		rules    resource.Rules
		observe  string
		readOnly bool
	}{{managed, "false", false}, {managed, "true", true}, {autonomous, "false", true}} {
		terms, err := liveTerms(given(t, map[string]string{allowFlag: "exec,Pod", "observe": c.observe}), c.rules)
		require.NoError(t, err)
		require.Equal(t, c.readOnly, terms.ReadOnly)
		require.Equal(t, "exec,core/Pod", terms.Allow.String())
	}
	_, err := liveTerms(given(t, map[string]string{allowFlag: "pods"}), managed)
	var usage *shell.UsageError
	require.ErrorAs(t, err, &usage)
	require.Equal(t, "--live-allow", usage.Where)
}

// TestALiveGuardAsksTheClusterOfTheAgent looks up an object of an Application in a namespace
// that the mapping allows.
func TestALiveGuardAsksTheClusterOfTheAgent(t *testing.T) {
	answers := map[string]string{
		"/api/v1":                              `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"configmaps","namespaced":true,"kind":"ConfigMap","verbs":["get"]}]}`,
		"/api/v1/namespaces/shop/configmaps/a": `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","namespace":"shop","uid":"1","annotations":{"argocd.argoproj.io/tracking-id":"team-1_app:/ConfigMap:shop/a"}}}`,
		"/api/v1/namespaces/argocd/configmaps/argocd-cm":                `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"argocd-cm"}}`,
		"/apis/argoproj.io/v1alpha1/namespaces/team-1/applications/app": `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"app","namespace":"team-1"}}`,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(text))
	}))
	defer s.Close()
	cfg := &rest.Config{Host: s.URL, Transport: s.Client().Transport}
	for code, m := range map[int]mapping{http.StatusNoContent: {true, []string{"team-*"}}, http.StatusForbidden: {}} {
		guard, err := liveGuard(cfg, "argocd", m, policy.Terms{}, zap.NewNop())
		require.NoError(t, err)
		w := httptest.NewRecorder()
		guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })).
			ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/shop/configmaps/a", nil))
		require.Equal(t, code, w.Code, w.Body)
	}
	_, err := liveGuard(nil, "argocd", mapping{}, policy.Terms{}, zap.NewNop())
	require.Error(t, err)
}
