package kubeapis

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// answers are those of an API server that tells all at once, and of one that does not. How a real
// one answers is seen by the tests of kubestore and of the policy.
var answers = map[string]map[string]string{
	"at once": {
		"/api": `{"kind":"APIGroupDiscoveryList","items":[{"metadata":{},"versions":[{"version":"v1","freshness":"Current","resources":[
			{"resource":"pods","responseKind":{"kind":"Pod"},"scope":"Namespaced","verbs":["get","list"]},{"resource":"nothing","scope":"Cluster"}]}]}]}`,
		"/apis": `{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"apps"},"versions":[
			{"version":"v1","resources":[{"resource":"deployments","responseKind":{"kind":"Deployment"},"scope":"Namespaced","verbs":["get"]}]},
			{"version":"v1beta1","freshness":"Stale","resources":[{"resource":"deployments","responseKind":{"kind":"Deployment"}}]}]}]}`,
	},
	"one by one": {
		"/api":          `{"kind":"APIVersions","versions":["v1"]}`,
		"/api/v1":       `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","kind":"Pod","namespaced":true,"verbs":["get","list"]}]}`,
		"/apis":         `{"kind":"APIGroupList","groups":[{"name":"apps","versions":[{"version":"v1"},{"version":"v1beta1"}]}]}`,
		"/apis/apps/v1": `{"kind":"APIResourceList","groupVersion":"apps/v1","resources":[{"name":"deployments","kind":"Deployment","namespaced":true,"verbs":["get"]}]}`,
	},
}

func TestAllIsTheSameHoweverItIsTold(t *testing.T) {
	for name, says := range answers {
		t.Run(name, func(t *testing.T) {
			all, err := asked(t, says).All(t.Context())
			require.NoError(t, err)
			require.Equal(t, []metav1.APIResourceList{
				{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: metav1.Verbs{"get", "list"}}}},
				{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "deployments", Kind: "Deployment", Namespaced: true, Verbs: metav1.Verbs{"get"}}}},
			}, all)
		})
	}
}

func TestWhatIsNotServedIsNotFound(t *testing.T) {
	c := asked(t, nil)
	_, err := c.Resources(t.Context(), schema.GroupVersion{Group: "batch", Version: "v1"})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	require.ErrorContains(t, err, "kubeapis: read /apis/batch/v1: ")
	all, err := c.All(t.Context())
	require.NoError(t, err)
	require.Empty(t, all)
	_, err = asked(t, map[string]string{"/version": "odd"}).Version(t.Context())
	require.ErrorContains(t, err, "kubeapis: read /version: ")
}

// asked returns a Client of a server that says so, and else that it has no such thing.
func asked(t *testing.T, says map[string]string) *Client {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := says[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			text = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
		}
		_, err := w.Write([]byte(text))
		require.NoError(t, err)
	}))
	t.Cleanup(s.Close)
	c, err := New(&rest.Config{Host: s.URL}, nil)
	require.NoError(t, err)
	return c
}
