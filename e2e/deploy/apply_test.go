package deploy

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/e2e/stack/stacktest"
)

// A real API server takes everything, and keeps each field: it is asked by kubectl, which has it
// refuse what it does not know.
func TestAnAPIServerTakesEverything(t *testing.T) {
	s := stacktest.Start(t, stack.Config{Clusters: []stack.ClusterConfig{{Name: "hub", CRDs: true}}})
	hub := s.Cluster("hub")
	require.NoError(t, hub.Namespace(t.Context(), argocd))
	for module, files := range definitions {
		for _, file := range files {
			text, err := os.ReadFile(filepath.Join(folderOf(t, module), file))
			require.NoError(t, err)
			define(t, hub, text)
		}
	}
	define(t, hub, []byte(serviceMonitor))
	t.Run("NATS servers elsewhere", func(t *testing.T) { testServersElsewhere(t, s, hub) })
	kubectl := func(stream []byte, args ...string) (string, error) {
		args = append([]string{"--kubeconfig", hub.Kubeconfig(), "apply", "--server-side", "--force-conflicts", "--validate=strict"}, args...)
		cmd := exec.CommandContext(t.Context(), s.Binaries().Path("kubectl"), args...)
		cmd.Stdin = bytes.NewReader(stream)
		output, err := cmd.CombinedOutput()
		return string(output), err
	}
	apply := func(name string, objects set) {
		output, err := kubectl(objects.stream(t), "-f", "-")
		require.NoError(t, err, "%s: %s", name, output)
		output = ofArgoCD.ReplaceAllString(output, "")
		require.NotContains(t, output, "Warning", name)
		require.Len(t, strings.Split(strings.TrimSpace(output), "\n"), len(objects), name)
	}
	for _, i := range installations {
		apply(i.name, overlay(t, i.base, i.components, ""))
	}
	for _, folder := range append([]string{"overlays/principal", "overlays/nats-external", "overlays/agent-managed", "overlays/agent-autonomous", "nats", "cert-manager"}, further...) {
		output, err := kubectl(nil, "-k", filepath.Join(root, folder)) // as the README has it
		require.NoError(t, err, "%s: %s", folder, output)
	}
	for namespace, objects := range examples(t) {
		require.NoError(t, hub.Namespace(t.Context(), namespace))
		apply(namespace, objects)
	}
	// A mistake is noticed.
	wrong := kustomized(t, filepath.Join(root, "agent"))
	wrong["Deployment argocd/argocd-agent-agent"].Object["spec"].(map[string]any)["replica"] = 1
	output, err := kubectl(wrong.stream(t), "-f", "-")
	require.Error(t, err)
	require.Contains(t, output, "replica")
}

// ofArgoCD is what Kubernetes says of the finalizer that Argo CD has given its name.
var ofArgoCD = regexp.MustCompile(`(?m)^Warning: .*resources-finalizer\.argocd\.argoproj\.io.*\n`)

// examples returns what to try it with, by its namespaces; what has none is deployed by an Application.
func examples(t *testing.T) map[string]set {
	out := map[string]set{}
	files, err := filepath.Glob(filepath.Join(root, "examples", "*", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for name, u := range setOf(t, text) {
			namespace := cmp.Or(u.GetNamespace(), "default")
			if out[namespace] == nil {
				out[namespace] = set{}
			}
			out[namespace][name] = u
		}
	}
	return out
}

// definitions are kinds of others that our manifests use, and where their modules define them.
var definitions = map[string][]string{
	"github.com/cert-manager/cert-manager": {
		"deploy/crds/cert-manager.io_certificates.yaml", "deploy/crds/cert-manager.io_issuers.yaml",
	},
}

// folderOf returns where a module is.
func folderOf(t *testing.T, module string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module)
	output, err := cmd.Output()
	require.NoError(t, err, module)
	return strings.TrimSpace(string(output))
}

// define makes a kind known, and waits until it is served.
func define(t *testing.T, c *stack.Cluster, text []byte) {
	t.Helper()
	var u unstructured.Unstructured
	require.NoError(t, yaml.Unmarshal(text, &u.Object))
	require.NoError(t, c.Apply(t.Context(), text))
	stacktest.Eventually(t, func(ctx context.Context) error { return established(ctx, c, u.GetName()) })
}

func established(ctx context.Context, c *stack.Cluster, name string) error {
	kinds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	u, err := c.Dynamic().Resource(kinds).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
			return nil
		}
	}
	return fmt.Errorf("%s is not established: %v", name, conditions)
}

// serviceMonitor is the kind as far as an API server has to know it; what is in one is held
// against its type.
const serviceMonitor = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servicemonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: ServiceMonitor, plural: servicemonitors, singular: servicemonitor, listKind: ServiceMonitorList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
`

func TestMonitorsAreOfTheirType(t *testing.T) {
	for _, program := range []string{"principal", "agent"} {
		s, name := everything(t, program), "argocd-agent-"+program
		m := as[monitoring.ServiceMonitor](t, s, "ServiceMonitor argocd/"+name)
		service := as[corev1.Service](t, s, "Service argocd/"+name+"-metrics")
		require.Equal(t, m.Spec.Selector.MatchLabels["app.kubernetes.io/name"], service.Labels["app.kubernetes.io/name"])
		require.Equal(t, m.Spec.Endpoints[0].Port, service.Spec.Ports[0].Name)
	}
}
