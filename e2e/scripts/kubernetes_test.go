package scripts

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/e2e/stack/stacktest"
)

// TestKubernetesScripts plays the stories that need a cluster: a real API server, which is
// the control plane's and the workload clusters' at once, in namespaces of their own.
func TestKubernetesScripts(t *testing.T) {
	s := stacktest.Start(t, stack.Config{Clusters: []stack.ClusterConfig{{Name: "hub", CRDs: true}}})
	cluster := s.Cluster("hub")
	testscript.Run(t, parameters(filepath.Join("testdata", "kubernetes"), map[string]func(*testscript.TestScript, bool, []string){
		"apply":     func(ts *testscript.TestScript, _ bool, args []string) { apply(ts, cluster, args) },
		"patch":     func(ts *testscript.TestScript, _ bool, args []string) { patch(ts, cluster, args) },
		"app":       func(ts *testscript.TestScript, neg bool, args []string) { app(ts, cluster, neg, args) },
		"namespace": func(ts *testscript.TestScript, _ bool, args []string) { namespace(ts, cluster, args) },
	}, func(e *testscript.Env) error {
		text, err := os.ReadFile(cluster.Kubeconfig())
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(e.WorkDir, "kubeconfig"), text, 0o600)
	}))
}

// apply FILE applies manifests.
func apply(ts *testscript.TestScript, c *stack.Cluster, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: apply file")
	}
	ts.Check(c.Apply(context.Background(), []byte(ts.ReadFile(args[0]))))
}

// namespace NAME makes a namespace.
func namespace(ts *testscript.TestScript, c *stack.Cluster, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: namespace name")
	}
	ts.Check(c.Namespace(context.Background(), args[0]))
}

// patch NAMESPACE NAME JSON merges into an Application.
func patch(ts *testscript.TestScript, c *stack.Cluster, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: patch namespace name json")
	}
	_, err := c.Dynamic().Resource(stack.Applications()).Namespace(args[0]).
		Patch(context.Background(), args[1], types.MergePatchType, []byte(args[2]), metav1.PatchOptions{})
	ts.Check(err)
}

// app NAMESPACE NAME REGEXP waits until an Application's JSON matches, ! app NAMESPACE NAME
// until it is gone.
func app(ts *testscript.TestScript, c *stack.Cluster, neg bool, args []string) {
	if neg && len(args) != 2 || !neg && len(args) != 3 {
		ts.Fatalf("usage: app namespace name regexp; ! app namespace name")
	}
	client, got := c.Dynamic().Resource(stack.Applications()).Namespace(args[0]), ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		o, err := client.Get(context.Background(), args[1], metav1.GetOptions{})
		if neg && apierrors.IsNotFound(err) {
			return
		}
		if err != nil {
			got = err.Error()
			continue
		}
		text, err := o.MarshalJSON()
		ts.Check(err)
		if got = string(text); !neg && regexp.MustCompile(args[2]).MatchString(got) {
			return
		}
	}
	ts.Fatalf("Application %s/%s is in the end: %s", args[0], args[1], got)
}
