package stack_test

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/e2e/stack/stacktest"
)

// TestStack starts a hub and a spoke once, uses them in each subtest, and then
// looks for what is left behind.
func TestStack(t *testing.T) {
	s := stacktest.Start(t, stack.Config{
		Clusters: []stack.ClusterConfig{
			{Name: "hub", Server: true, ApplicationSets: true, ApplicationNamespaces: []string{"edge-*"}},
			{Name: "spoke", ArgoCD: true, Server: true},
		},
	})
	t.Run("Application becomes healthy", func(t *testing.T) { testApplication(t, s) })
	t.Run("pods show logs and take exec", func(t *testing.T) { testPods(t, s) })
	t.Run("argocd-server lists Applications", func(t *testing.T) { testArgoCDServer(t, s) })
	t.Run("the CLI waits until a sync has ended", func(t *testing.T) { testCLISync(t, s) })
	t.Run("the CLI tells how it ended", func(t *testing.T) { testCLIExit(t, s) })
	t.Run("Argo CD sees Applications in other namespaces", func(t *testing.T) { testOtherNamespaces(t, s) })
	t.Run("an ApplicationSet makes Applications in its namespace", func(t *testing.T) { testApplicationSet(t, s) })
	t.Run("argocd-server keeps to its rules of operations", func(t *testing.T) { testOperationRules(t, s) })
	t.Run("argocd-server shows what is known of an agent's cluster", func(t *testing.T) { testClusterInfo(t, s) })
	t.Run("RBAC binds ServiceAccounts and the audit log shows it", func(t *testing.T) { testAudit(t, s) })
	t.Run("servers come back", func(t *testing.T) { testRestarts(t, s) })
	t.Run("nothing is left", func(t *testing.T) { testClose(t, s) })
}

func testApplication(t *testing.T, s *stack.Stack) {
	ctx := within(t, time.Minute)
	repo, err := s.GitRepo(ctx, "demo")
	require.NoError(t, err)
	spoke := s.Cluster("spoke")
	require.NoError(t, spoke.Apply(ctx, application("demo", repo.URL())))
	stacktest.Eventually(t, healthy(spoke, "demo"))

	settings := configMaps(spoke, "demo")
	object, err := settings.Get(ctx, "settings", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"greeting": "hello"}, object.Object["data"])

	revision, err := repo.Commit(ctx, map[string]string{
		stack.AppPath + "/more.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n",
	})
	require.NoError(t, err)
	refresh(t, spoke, "demo")
	stacktest.Eventually(t, func(ctx context.Context) error {
		_, err := settings.Get(ctx, "more", metav1.GetOptions{})
		return err
	})
	stacktest.Eventually(t, func(ctx context.Context) error {
		app, err := applications(spoke).Get(ctx, "demo", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if synced, _, _ := unstructured.NestedString(app.Object, "status", "sync", "revision"); synced != revision {
			return fmt.Errorf("synced to %q", synced)
		}
		return nil
	})
}

func testPods(t *testing.T, s *stack.Stack) {
	kubectl := func(args ...string) string {
		cmd := exec.CommandContext(within(t, time.Minute), s.Binaries().Path("kubectl"), args...)
		cmd.Env = []string{"KUBECONFIG=" + s.Cluster("spoke").Kubeconfig(), "HOME=" + s.Dir()}
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, string(output))
		return string(output)
	}
	require.Contains(t, kubectl("logs", "-n", "demo", "deployment/web", "--tail=1"), "line 19 of spoke")
	require.Equal(t, "ok\n", kubectl("exec", "-n", "demo", "deployment/web", "--", "echo", "ok"))
}

func testArgoCDServer(t *testing.T, s *stack.Stack) {
	ctx := within(t, time.Minute)
	hub := s.Cluster("hub")
	require.NoError(t, hub.Apply(ctx, application("on-hub", "file:///nowhere")))
	stacktest.Eventually(t, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, hub.ArgoCDServerURL()+"/api/v1/applications/on-hub", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("argocd-server: %s", response.Status)
		}
		return nil
	})
}

func testAudit(t *testing.T, s *stack.Stack) {
	ctx := within(t, time.Minute)
	hub := s.Cluster("hub")
	require.NoError(t, hub.Apply(ctx, []byte(`apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: argocd}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: argocd}
rules: [{apiGroups: [argoproj.io], resources: [applications], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: argocd}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: argocd}]
`)))
	kubeconfig, err := hub.ServiceAccountKubeconfig(ctx, "argocd", "reader")
	require.NoError(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	apps := client.Resource(stack.Applications()).Namespace("argocd")
	stacktest.Eventually(t, func(ctx context.Context) error { // the authorizer follows its rules by watches
		_, err := apps.Get(ctx, "on-hub", metav1.GetOptions{})
		return err
	})
	require.True(t, apierrors.IsForbidden(apps.Delete(ctx, "on-hub", metav1.DeleteOptions{})))

	want := stack.AuditRecord{
		User: "system:serviceaccount:argocd:reader", Verb: "get",
		Group: "argoproj.io", Resource: "applications", Namespace: "argocd", Name: "on-hub",
		URI: "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/on-hub", Code: http.StatusOK,
	}
	refused := want
	refused.Verb, refused.Code = "delete", http.StatusForbidden
	var records []stack.AuditRecord
	stacktest.Eventually(t, func(context.Context) error { // written once the answer is out
		records, err = hub.Audit()
		if err == nil && (len(records) == 0 || records[len(records)-1].Verb != "delete") {
			return fmt.Errorf("%d records", len(records))
		}
		return err
	})
	require.Contains(t, records, want)
	require.Contains(t, records, refused)
	for _, record := range records {
		require.True(t, strings.HasPrefix(record.User, "system:serviceaccount:"), record.User)
	}
}

func testRestarts(t *testing.T, s *stack.Stack) {
	ctx := within(t, 2*time.Minute)
	spoke := s.Cluster("spoke")
	server := spoke.Process(stack.APIServer)
	require.NoError(t, server.Restart(ctx))
	_, err := applications(spoke).Get(ctx, "demo", metav1.GetOptions{})
	require.NoError(t, err, "the state is in etcd")

	controller := spoke.Process(stack.AppController)
	controller.Kill()
	server.Kill()
	_, err = applications(spoke).Get(ctx, "demo", metav1.GetOptions{})
	require.Error(t, err)
	require.NoError(t, server.Start(ctx))
	require.NoError(t, controller.Start(ctx))

	// A restarted controller compares an Application again only when something
	// happens; what goes before it watches the cluster it finds minutes later.
	refresh(t, spoke, "demo")
	require.NoError(t, configMaps(spoke, "demo").Delete(ctx, "settings", metav1.DeleteOptions{}))
	stacktest.Eventually(t, func(ctx context.Context) error {
		_, err := configMaps(spoke, "demo").Get(ctx, "settings", metav1.GetOptions{})
		return err
	})
}

func testClose(t *testing.T, s *stack.Stack) {
	processes := s.Processes()
	require.NotEmpty(t, processes)
	for _, p := range processes {
		require.True(t, p.Running(), p.Name())
	}
	require.NoError(t, s.Close())
	for _, p := range processes {
		require.False(t, p.Running(), p.Name())
		stacktest.Eventually(t, gone(p.PID()))
	}
	require.NoError(t, s.Close(), "once more does nothing")
}

// application returns a managed Application that syncs by itself into the
// namespace of its name.
func application(name, repo string) []byte {
	return fmt.Appendf(nil, `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %[1]s, namespace: argocd}
spec:
  project: default
  source: {repoURL: %[2]q, path: %[3]s, targetRevision: main}
  destination: {server: "https://kubernetes.default.svc", namespace: %[1]s}
  syncPolicy: {automated: {prune: true, selfHeal: true}, syncOptions: [CreateNamespace=true]}
`, name, repo, stack.AppPath)
}

func applications(c *stack.Cluster) dynamic.ResourceInterface {
	return c.Dynamic().Resource(stack.Applications()).Namespace(stack.ArgoCDNamespace)
}

func configMaps(c *stack.Cluster, namespace string) dynamic.ResourceInterface {
	return c.Dynamic().Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace)
}

// refresh lets the controller compare an Application, and returns once it has.
func refresh(t *testing.T, c *stack.Cluster, name string) {
	t.Helper()
	const annotation = "argocd.argoproj.io/refresh"
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"normal"}}}`, annotation)
	_, err := applications(c).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	stacktest.Eventually(t, func(ctx context.Context) error {
		app, err := applications(c).Get(ctx, name, metav1.GetOptions{})
		if err == nil && app.GetAnnotations()[annotation] != "" {
			return fmt.Errorf("application %s is not compared yet", name)
		}
		return err
	})
}

// healthy checks that an Application is Synced and Healthy.
func healthy(c *stack.Cluster, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		app, err := applications(c).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		sync, _, _ := unstructured.NestedString(app.Object, "status", "sync", "status")
		health, _, _ := unstructured.NestedString(app.Object, "status", "health", "status")
		if sync != "Synced" || health != "Healthy" {
			return fmt.Errorf("application %s is %q, %q: %v", name, sync, health, app.Object["status"])
		}
		return nil
	}
}
