package policy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/argocd-fabric/argocd-agent/deploy"
	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/e2e/stack/stacktest"
)

// value is the base64 of what must not be seen.
const value = "aHVudGVyMg=="

// A spoke is a real API server, which an agent reaches under the rights that deploy/ grants.
type spoke struct {
	*stack.Cluster
	agent *rest.Config
	admin dynamic.Interface
}

var (
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	jobs        = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

func startSpoke(t *testing.T) spoke {
	c := stacktest.Start(t, stack.Config{Clusters: []stack.ClusterConfig{{Name: "spoke", CRDs: true}}}).Cluster("spoke")
	require.NoError(t, c.Namespace(t.Context(), "argocd"))
	require.NoError(t, c.Namespace(t.Context(), "shop"))
	for _, rights := range [][]byte{deploy.Managed(), deploy.Live(), deploy.LiveWrite(), deploy.LiveSecrets()} {
		require.NoError(t, c.Apply(t.Context(), rights))
	}
	path, err := c.ServiceAccountKubeconfig(t.Context(), "argocd", "argocd-agent-agent")
	require.NoError(t, err)
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	return spoke{c, cfg, c.Dynamic()}
}

// apply makes an object whose tracking id names guestbook, unless it is owned, and returns it.
func (s spoke) apply(t *testing.T, r schema.GroupVersionResource, kind, name, spec string, owner *unstructured.Unstructured) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	require.NoError(t, o.UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":"shop"},%s}`, r.GroupVersion(), kind, name, spec)))
	if owner == nil {
		o.SetAnnotations(map[string]string{trackingAnnotation: fmt.Sprintf("guestbook:%s/%s:shop/%s", r.Group, kind, name)})
	} else {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID()}})
	}
	o, err := s.admin.Resource(r).Namespace("shop").Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	return o
}

// guarded returns how the API server is reached behind a policy, as the agent. Between the
// decision and the API server comes a meanwhile, if there is one.
func (s spoke) guarded(t *testing.T, allow string, meanwhile func()) *rest.Config {
	a, err := ParseAllow(allow)
	require.NoError(t, err)
	objects, err := NewCluster(ClusterConfig{REST: s.agent, Namespace: "argocd"})
	require.NoError(t, err)
	p, err := New(Config{Terms: Terms{Allow: a}, Namespace: "argocd", Objects: objects, Log: nop})
	require.NoError(t, err)
	target, err := url.Parse(s.agent.Host)
	require.NoError(t, err)
	transport, err := rest.TransportFor(s.agent)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
	}
	server := httptest.NewServer(p.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if meanwhile != nil && r.Method != http.MethodGet {
			meanwhile()
		}
		proxy.ServeHTTP(w, r)
	})))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func dynamicOf(t *testing.T, cfg *rest.Config) dynamic.Interface {
	c, err := dynamic.NewForConfig(cfg)
	require.NoError(t, err)
	return c
}

// TestARealAPIServerBehindThePolicy has clients of Kubernetes ask a real API server.
func TestARealAPIServerBehindThePolicy(t *testing.T) {
	s := startSpoke(t)
	require.NoError(t, s.Apply(t.Context(), []byte(`{"apiVersion":"argoproj.io/v1alpha1","kind":"Application","metadata":{"name":"guestbook","namespace":"argocd"},"spec":{"project":"default","destination":{"name":"in-cluster"}}}`)))
	const template = `"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	web := s.apply(t, deployments, "Deployment", "web", `"spec":{"selector":{"matchLabels":{"a":"b"}},`+template+`}`, nil)
	set := s.apply(t, schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}, "ReplicaSet", "web-1", `"spec":{"selector":{"matchLabels":{"a":"b"}},`+template+`}`, web)
	pod := s.apply(t, configMaps, "ConfigMap", "of-web-1", `"data":{"a":"b"}`, set)
	s.apply(t, schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "Secret", "creds", `"data":{"password":"`+value+`"}`, nil)
	_, err := s.admin.Resource(configMaps).Namespace("shop").Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "stray"},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)

	t.Run("owners", func(t *testing.T) {
		c := dynamicOf(t, s.guarded(t, "", nil))
		got, err := c.Resource(configMaps).Namespace("shop").Get(t.Context(), "of-web-1", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, pod.GetUID(), got.GetUID())
		_, err = c.Resource(configMaps).Namespace("shop").Get(t.Context(), "stray", metav1.GetOptions{})
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		require.ErrorContains(t, err, "rule read")
		_, err = c.Resource(configMaps).Namespace("shop").Get(t.Context(), "none", metav1.GetOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)
		_, err = c.Resource(schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}).Namespace("shop").Get(t.Context(), "any", metav1.GetOptions{})
		require.ErrorContains(t, err, "rule rights")
	})
	t.Run("secrets", func(t *testing.T) { secretsOfARealAPIServer(t, s) })
	t.Run("events", func(t *testing.T) { eventsOfARealAPIServer(t, s, web) })
	t.Run("changes", func(t *testing.T) { changesOnARealAPIServer(t, s) })
	t.Run("namesakes", func(t *testing.T) { namesakesOnARealAPIServer(t, s, web) })
}

// secretsOfARealAPIServer asks for Secrets in all forms that there are.
func secretsOfARealAPIServer(t *testing.T, s spoke) {
	// What is allowed is more than the agent's rights: only a get reaches a Secret.
	guarded := s.guarded(t, "*", nil)
	for _, accept := range []string{
		"", "application/json", "application/yaml", "application/cbor", "application/vnd.kubernetes.protobuf",
		"application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "*/*",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, guarded.Host+"/api/v1/namespaces/shop/secrets/creds?includeObject=Object&pretty=true", nil)
		require.NoError(t, err)
		r.Header.Set("Accept", accept)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.NotContains(t, string(text), value[:8], accept)
		require.Contains(t, string(text), Mask, accept)
	}
	typed, err := kubernetes.NewForConfig(guarded)
	require.NoError(t, err)
	secret, err := typed.CoreV1().Secrets("shop").Get(t.Context(), "creds", metav1.GetOptions{})
	require.NoError(t, err, "a client that prefers protobuf reads it")
	require.NotEqual(t, "hunter2", string(secret.Data["password"]))
	_, err = typed.CoreV1().Secrets("shop").Patch(t.Context(), "creds", types.JSONPatchType, []byte(`[{"op":"test","path":"/data/password","value":"`+value+`"}]`), metav1.PatchOptions{})
	require.ErrorContains(t, err, "rule secret-write")
}

// eventsOfARealAPIServer asks for the events of an object as argocd-server does.
func eventsOfARealAPIServer(t *testing.T, s spoke, web *unstructured.Unstructured) {
	typed, err := kubernetes.NewForConfig(s.guarded(t, "", nil))
	require.NoError(t, err)
	of := func(uid types.UID) metav1.ListOptions {
		return metav1.ListOptions{FieldSelector: "involvedObject.name=web,involvedObject.namespace=shop,involvedObject.uid=" + string(uid)}
	}
	list, err := typed.CoreV1().Events("shop").List(t.Context(), of(web.GetUID()))
	require.NoError(t, err)
	require.Empty(t, list.Items)
	require.NotEmpty(t, list.ResourceVersion)
	require.NoError(t, s.Apply(t.Context(), fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Event","metadata":{"name":"e","namespace":"shop"},"reason":"Scaled","involvedObject":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"shop","name":"web","uid":%q}}`, web.GetUID())))
	list, err = typed.CoreV1().Events("shop").List(t.Context(), of(web.GetUID()))
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	_, err = typed.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "%v", err)
}

// changesOnARealAPIServer makes changes that pass, and looks at what has come of them.
func changesOnARealAPIServer(t *testing.T, s spoke) {
	c := dynamicOf(t, s.guarded(t, "", nil))
	web := c.Resource(deployments).Namespace("shop")
	for typ, patch := range map[types.PatchType]string{
		types.MergePatchType:          `{"metadata":{"labels":{"merge":"yes"}}}`,
		types.StrategicMergePatchType: `{"metadata":{"labels":{"strategic":"yes"}}}`,
		types.JSONPatchType:           `[{"op":"add","path":"/metadata/annotations/json","value":"yes"}]`,
	} {
		_, err := web.Patch(t.Context(), "web", typ, []byte(patch), metav1.PatchOptions{})
		require.NoError(t, err, typ)
	}
	o, err := web.Patch(t.Context(), "web", types.ApplyYAMLPatchType, []byte("apiVersion: apps/v1\nkind: Deployment\nmetadata: {labels: {apply: \"yes\"}}\n"), metav1.PatchOptions{FieldManager: "test"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"merge": "yes", "strategic": "yes", "apply": "yes"}, o.GetLabels())
	require.Equal(t, "yes", o.GetAnnotations()["json"])
	for sub, patch := range map[string]string{"scale": `{"spec":{"replicas":3}}`, "status": `{"status":{"replicas":3}}`} {
		_, err := web.Patch(t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, sub)
		require.NoError(t, err, sub)
	}

	cron := s.apply(t, schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "cronjobs"}, "CronJob", "nightly",
		`"spec":{"schedule":"0 0 * * *","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}`, nil)
	job := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": "nightly-1", "namespace": "shop"}}}
	template, _, err := unstructured.NestedMap(cron.Object, "spec", "jobTemplate", "spec")
	require.NoError(t, err)
	job.Object["spec"] = template
	_, err = c.Resource(jobs).Namespace("shop").Create(t.Context(), job, metav1.CreateOptions{})
	require.ErrorContains(t, err, "rule create")
	job.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "CronJob", Name: "nightly", UID: cron.GetUID()}})
	made, err := c.Resource(jobs).Namespace("shop").Create(t.Context(), job, metav1.CreateOptions{})
	require.NoError(t, err)

	at := c.Resource(jobs).Namespace("shop")
	require.NoError(t, at.Delete(t.Context(), "nightly-1", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, s.guarded(t, "", nil).Host+"/apis/batch/v1/namespaces/shop/jobs/nightly-1?dryRun=All", nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	still, err := at.Get(t.Context(), "nightly-1", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, made.GetUID(), still.GetUID(), "what was to be tried was only tried")
	background, zero := metav1.DeletePropagationBackground, int64(0)
	require.NoError(t, at.Delete(t.Context(), "nightly-1", metav1.DeleteOptions{PropagationPolicy: &background, GracePeriodSeconds: &zero}))
	_, err = at.Get(t.Context(), "nightly-1", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

// namesakesOnARealAPIServer has an object be replaced by a namesake between the decision and
// the change: nothing comes of the change.
func namesakesOnARealAPIServer(t *testing.T, s spoke, web *unstructured.Unstructured) {
	admin := s.admin.Resource(deployments).Namespace("shop")
	swap := func() {
		require.NoError(t, admin.Delete(context.Background(), "web", metav1.DeleteOptions{}))
		namesake := web.DeepCopy()
		for _, field := range []string{"uid", "resourceVersion", "annotations", "managedFields"} {
			unstructured.RemoveNestedField(namesake.Object, "metadata", field)
		}
		_, err := admin.Create(context.Background(), namesake, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	guarded := dynamicOf(t, s.guarded(t, "", swap)).Resource(deployments).Namespace("shop")
	for name, change := range map[string]func() error{
		"merge":     patching(t, guarded, types.MergePatchType, `{"metadata":{"labels":{"hit":"yes"}}}`),
		"strategic": patching(t, guarded, types.StrategicMergePatchType, `{"metadata":{"labels":{"hit":"yes"}}}`),
		"json":      patching(t, guarded, types.JSONPatchType, `[{"op":"add","path":"/metadata/labels","value":{"hit":"yes"}}]`),
		"apply":     patching(t, guarded, types.ApplyYAMLPatchType, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{"hit":"yes"}}}`),
		"scale":     patching(t, guarded, types.MergePatchType, `{"spec":{"replicas":7}}`, "scale"),
		"status":    patching(t, guarded, types.MergePatchType, `{"status":{"replicas":7}}`, "status"),
		"delete":    func() error { return guarded.Delete(t.Context(), "web", metav1.DeleteOptions{}) },
	} {
		_, err := admin.Patch(t.Context(), "web", types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"guestbook:apps/Deployment:shop/web"}}}`, trackingAnnotation), metav1.PatchOptions{})
		require.NoError(t, err)
		err = change()
		require.True(t, apierrors.IsConflict(err) || apierrors.IsInvalid(err), "%s: %v", name, err)
		now, err := admin.Get(t.Context(), "web", metav1.GetOptions{})
		require.NoError(t, err)
		require.Empty(t, now.GetLabels(), name)
		text, err := now.MarshalJSON()
		require.NoError(t, err)
		require.False(t, bytes.Contains(text, []byte(`"replicas":7`)), name)
	}
}

func patching(t *testing.T, c dynamic.ResourceInterface, typ types.PatchType, patch string, sub ...string) func() error {
	return func() error {
		o := metav1.PatchOptions{}
		if typ == types.ApplyYAMLPatchType {
			o.FieldManager = "test"
		}
		_, err := c.Patch(t.Context(), "web", typ, []byte(patch), o, sub...)
		return err
	}
}
