package kubestore

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

// admin makes objects in a namespace out of YAML.
func (c cluster) admin(namespace, text string) {
	for one := range strings.SplitSeq(text, "\n---\n") {
		u := &unstructured.Unstructured{}
		require.NoError(c.t, yaml.Unmarshal([]byte(one), &u.Object), one)
		gvk := u.GroupVersionKind()
		resource := schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: strings.ToLower(gvk.Kind) + "s"}
		_, err := c.Dynamic().Resource(resource).Namespace(namespace).Create(c.t.Context(), u, metav1.CreateOptions{})
		require.NoError(c.t, err, one)
	}
}

// reader returns the Home of a user who may do what Controllers needs, and nothing else.
func (c cluster) reader(namespace string) *Home {
	user := "reader-of-" + namespace
	c.admin(namespace, fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules:
- {apiGroups: [apps], resources: [statefulsets, deployments], verbs: [list]}
- {apiGroups: [""], resources: [configmaps], resourceNames: [argocd-cmd-params-cm], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %s}]`, user))
	cfg := c.RESTConfig()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user}
	h, err := NewHome(HomeConfig{REST: cfg, Namespace: namespace, Log: zaptest.NewLogger(c.t)})
	require.NoError(c.t, err)
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(c.t, stack.Poll(ctx, 20*time.Millisecond, func(ctx context.Context) error { // rights take effect a moment after they are given
		_, err := h.Controllers(ctx)
		return err
	}))
	return h
}

// workloadNamed is a workload of an application-controller, with further YAML for itself and
// its container.
func workloadNamed(kind, name, spec, container string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: %s
metadata:
  name: %s
  labels: {app.kubernetes.io/component: application-controller}
spec:
  %s
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec:
      containers:
      - {name: sidecar, image: "registry:5000/sidecar:v1"}
      - {name: argocd-application-controller, %[4]s}`, kind, name, spec, container)
}

// byParams takes the namespaces from a ConfigMap, as Argo CD's manifests do.
func byParams(configMap string) string {
	return `image: "quay.io/argoproj/argocd:v2.14.21", env: [{name: OTHER, value: other}, {name: ARGOCD_APPLICATION_NAMESPACES, ` +
		`valueFrom: {configMapKeyRef: {name: ` + configMap + `, key: application.namespaces, optional: true}}}]`
}

func TestControllers(t *testing.T) {
	c := startCluster(t)
	namespace := c.namespace()
	h := c.reader(namespace)
	controllers := func() map[string]Controller {
		found, err := h.Controllers(t.Context())
		require.NoError(t, err)
		out := map[string]Controller{}
		for _, f := range found {
			kind, rest, _ := strings.Cut(f.Name, " ")
			name, inside := strings.CutPrefix(rest, namespace+"/")
			require.True(t, inside, f.Name)
			require.Equal(t, strings.HasPrefix(name, "d-"), kind == "Deployment", f.Name)
			f.Name = ""
			out[name] = f
		}
		return out
	}
	require.Empty(t, controllers())

	image := func(more string) string { return "image: quay.io/argoproj/argocd:v3.2.11, " + more }
	for _, w := range []struct{ kind, name, spec, container string }{
		{"StatefulSet", "as-shipped", "", byParams("argocd-cmd-params-cm")},
		{"StatefulSet", "scaled-down", "replicas: 0", byParams("argocd-cmd-params-cm")},
		{"StatefulSet", "no-namespaces", "replicas: 2", image("env: []")},
		{"Deployment", "d-value", "", image(`env: [{name: ARGOCD_APPLICATION_NAMESPACES, value: "a, b-*,/c/"}]`)},
		{"Deployment", "d-flag", "", image(`args: [argocd-application-controller, "--application-namespaces=x,w", --other, --application-namespaces, z], env: [{name: ARGOCD_APPLICATION_NAMESPACES, value: a}]`)},
		{"Deployment", "d-whole", "", image("envFrom: [{prefix: ARGOCD_, configMapRef: {name: argocd-cmd-params-cm}}, {prefix: OTHER_, configMapRef: {name: unseen}}, {secretRef: {name: unseen}}]")},
		{"Deployment", "d-digest", "", `image: "registry:5000/argocd@sha256:` + strings.Repeat("0", 64) + `"`},
		{"Deployment", "d-untagged", "", `image: "registry:5000/argocd"`},
	} {
		c.admin(namespace, workloadNamed(w.kind, w.name, w.spec, w.container))
	}
	c.admin(namespace, strings.ReplaceAll(workloadNamed("Deployment", "d-other", "", image("env: []")), "component: application-controller", "component: server"))
	all := controllers()
	require.Equal(t, map[string]Controller{
		"as-shipped":    {Version: "v2.14.21"},
		"no-namespaces": {Version: "v3.2.11"},
		"d-value":       {Version: "v3.2.11", Namespaces: []string{"a", "b-*", "/c/"}},
		"d-flag":        {Version: "v3.2.11", Namespaces: []string{"x", "w", "z"}},
		"d-whole":       {Version: "v3.2.11"},
		"d-digest":      {},
		"d-untagged":    {},
	}, all)

	c.admin(namespace, `
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cmd-params-cm}
data: {application.namespaces: "ns1, ns2", APPLICATION_NAMESPACES: ns3}`)
	all = controllers()
	require.Equal(t, []string{"ns1", "ns2"}, all["as-shipped"].Namespaces)
	require.Equal(t, []string{"ns3"}, all["d-whole"].Namespaces)
}

// TestControllersSaysWhatItMayNotRead holds that settings which cannot be read are never
// taken for none.
func TestControllersSaysWhatItMayNotRead(t *testing.T) {
	c := startCluster(t)
	for _, container := range []string{
		byParams("elsewhere"),
		"image: argocd, envFrom: [{configMapRef: {name: elsewhere}}]",
		`image: argocd, args: ["--application-namespaces=\"a"]`,
	} {
		namespace := c.namespace()
		h := c.reader(namespace)
		c.admin(namespace, workloadNamed("StatefulSet", "it", "", container))
		_, err := h.Controllers(t.Context())
		require.ErrorContains(t, err, "kubestore: settings of StatefulSet "+namespace+"/it: ")
		require.True(t, slices.ContainsFunc([]string{"configmap elsewhere", "--application-namespaces"}, func(s string) bool { return strings.Contains(err.Error(), s) }), err)
	}
	cfg := c.RESTConfig()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "nobody"}
	h, err := NewHome(HomeConfig{REST: cfg, Namespace: c.namespace(), Log: zaptest.NewLogger(t)})
	require.NoError(t, err)
	_, err = h.Controllers(t.Context())
	require.ErrorContains(t, err, "kubestore: list statefulsets of "+h.cfg.Namespace)
	require.ErrorIs(t, err, fs.ErrPermission)
}
