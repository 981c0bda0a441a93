package real

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// controller is an application controller of Argo CD's, as its manifests have it, and the
// namespaces that its settings name.
const controller = `apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cmd-params-cm, namespace: argocd}
data: {application.namespaces: "%s"}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: argocd-application-controller, namespace: argocd, labels: {app.kubernetes.io/component: application-controller}}
spec:
  replicas: %d
  serviceName: argocd-application-controller
  selector: {matchLabels: {app.kubernetes.io/name: argocd-application-controller}}
  template:
    metadata: {labels: {app.kubernetes.io/name: argocd-application-controller}}
    spec:
      containers:
      - name: argocd-application-controller
        image: quay.io/argoproj/argocd:v2.14.21
        env:
        - name: ARGOCD_APPLICATION_NAMESPACES
          valueFrom: {configMapKeyRef: {name: argocd-cmd-params-cm, key: application.namespaces, optional: true}}
`

// hybridHub: a principal serves beside an application controller of the hub that leaves
// agents' Applications alone, tells of one that does not, and does not start beside that.
func hybridHub(t *testing.T, w *world) {
	a := w.agent(t, "edge-2")
	runs := func(replicas int, namespaces string) {
		require.NoError(t, w.hub.Apply(t.Context(), fmt.Appendf(nil, controller, namespaces, replicas)))
	}
	t.Cleanup(func() {
		for resource, name := range map[string]string{"statefulsets": "argocd-application-controller", "configmaps": "argocd-cmd-params-cm"} {
			group := map[string]string{"statefulsets": "apps"}[resource]
			client := w.hub.Dynamic().Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).Namespace(argocd)
			require.NoError(t, client.Delete(context.Background(), name, metav1.DeleteOptions{}))
		}
	})
	runs(1, "team-*")
	w.principal.stop(t)
	require.NoError(t, w.principal.Start(t.Context()), "it leaves agents' alone")

	const conflict = "a controller of the control plane reconciles agents' Applications"
	runs(1, "edge-*")
	within(t, patience, w.principal.said(1, conflict, "StatefulSet argocd/argocd-application-controller"))
	a.hub.create(t, application("hybrid", spec(a.name, "https://git.example.com/hybrid.git", "hybrid")))
	within(t, patience, a.spoke.is("hybrid"))
	w.principal.stop(t)
	require.Error(t, w.principal.Start(t.Context()), "it does not start beside it")
	require.NoError(t, w.principal.said(1, "argocd-agent: hybrid: StatefulSet argocd/argocd-application-controller", "would reconcile", "edge-2", "scale it to 0")(t.Context()))

	runs(0, "edge-*")
	require.NoError(t, w.principal.Start(t.Context()), "it does not run")
	a.hub.remove(t, "hybrid")
	within(t, patience, a.spoke.gone("hybrid"))
	time.Sleep(12 * time.Second) // in which it has looked again
	require.NoError(t, w.principal.said(1, conflict)(t.Context()))
}
