package scripts

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/e2e/stack/stacktest"
)

// TestKubernetesScripts plays the stories that need clusters: the real API servers of a
// control plane and of a workload cluster.
func TestKubernetesScripts(t *testing.T) {
	c := clusters{t: t, namespaces: new(sync.Map), Stack: stacktest.Start(t, stack.Config{Clusters: []stack.ClusterConfig{{Name: "hub", CRDs: true, Controllers: true}, {Name: "spoke", CRDs: true}}})}
	deploy, err := filepath.Abs(filepath.Join("..", "..", "deploy"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, parameters(filepath.Join("testdata", "kubernetes"), map[string]func(*testscript.TestScript, bool, []string){
		"apply":     c.apply,
		"namespace": c.namespace,
		"patch":     c.patch,
		"delete":    c.delete,
		"app":       c.app,
		"uid":       c.uid,
		"account":   c.account,
		"requests":  c.requests,
		"live":      c.live,
	}, func(e *testscript.Env) error {
		e.Setenv("DEPLOY", deploy)
		e.Setenv("KUBECONFIG", filepath.Join(e.WorkDir, "kubeconfig"))
		return c.writeKubeconfig(filepath.Join(e.WorkDir, "kubeconfig"))
	}))
}

// clusters are those that scripts work on, by their names. They are shared by all scripts:
// each has namespaces of its own, and is refused one that another has made.
type clusters struct {
	t          *testing.T
	namespaces *sync.Map // cluster/name to the script that made it
	*stack.Stack
}

// writeKubeconfig writes a file with a context for each cluster, as its administrator.
func (c clusters) writeKubeconfig(path string) error {
	config := api.NewConfig()
	for _, name := range []string{"hub", "spoke"} {
		rest := c.Cluster(name).RESTConfig()
		config.Clusters[name] = &api.Cluster{Server: rest.Host, CertificateAuthorityData: c.Cluster(name).CA()}
		config.AuthInfos[name] = &api.AuthInfo{Token: c.Cluster(name).Token()}
		config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	}
	config.CurrentContext = "hub"
	return clientcmd.WriteToFile(*config, path)
}

// on returns the cluster that the first argument names.
func (c clusters) on(ts *testscript.TestScript, args []string, n int, usage string) *stack.Cluster {
	if len(args) != n || c.Cluster(args[0]) == nil {
		ts.Fatalf("usage: %s", usage)
	}
	return c.Cluster(args[0])
}

func apps(c *stack.Cluster, namespace string) dynamic.ResourceInterface {
	return c.Dynamic().Resource(stack.Applications()).Namespace(namespace)
}

func (c clusters) apply(ts *testscript.TestScript, _ bool, args []string) {
	on := c.on(ts, args, 2, "apply cluster file")
	ts.Check(on.Apply(c.t.Context(), []byte(ts.ReadFile(args[1]))))
}

func (c clusters) namespace(ts *testscript.TestScript, _ bool, args []string) {
	on := c.on(ts, args, 2, "namespace cluster name")
	if script, taken := c.namespaces.LoadOrStore(args[0]+"/"+args[1], ts.Name()); taken {
		ts.Fatalf("namespace %s on %s is that of script %s: take another name", args[1], args[0], script)
	}
	ts.Check(on.Namespace(c.t.Context(), args[1]))
}

func (c clusters) patch(ts *testscript.TestScript, _ bool, args []string) {
	on := c.on(ts, args, 4, "patch cluster namespace name json")
	_, err := apps(on, args[1]).Patch(c.t.Context(), args[2], types.MergePatchType, []byte(args[3]), metav1.PatchOptions{})
	ts.Check(err)
}

func (c clusters) delete(ts *testscript.TestScript, _ bool, args []string) {
	on := c.on(ts, args, 3, "delete cluster namespace name")
	ts.Check(apps(on, args[1]).Delete(c.t.Context(), args[2], metav1.DeleteOptions{}))
}

// app waits until an Application's JSON matches; if it is negated, until it is gone.
func (c clusters) app(ts *testscript.TestScript, neg bool, args []string) {
	n, what := 4, regexp.MustCompile("")
	if neg {
		n = 3
	} else if len(args) == n {
		what = regexp.MustCompile(args[3])
	}
	client, got := apps(c.on(ts, args, n, "app cluster namespace name regexp; ! app cluster namespace name"), args[1]), ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		o, err := client.Get(c.t.Context(), args[2], metav1.GetOptions{})
		switch {
		case neg && apierrors.IsNotFound(err):
			return
		case err != nil:
			got = err.Error()
			continue
		}
		text, err := o.MarshalJSON()
		ts.Check(err)
		if got = string(text); !neg && what.MatchString(got) {
			return
		}
	}
	ts.Fatalf("Application %s/%s on %s is in the end: %s", args[1], args[2], args[0], got)
}

// uid sets an environment variable to the UID of an Application.
func (c clusters) uid(ts *testscript.TestScript, _ bool, args []string) {
	o, err := apps(c.on(ts, args, 4, "uid cluster namespace name variable"), args[1]).Get(c.t.Context(), args[2], metav1.GetOptions{})
	ts.Check(err)
	ts.Setenv(args[3], string(o.GetUID()))
}

// account writes a kubeconfig that has the rights of a ServiceAccount, once they are known
// to the API server.
func (c clusters) account(ts *testscript.TestScript, _ bool, args []string) {
	on := c.on(ts, args, 4, "account cluster namespace name file")
	path, err := on.ServiceAccountKubeconfig(c.t.Context(), args[1], args[2])
	ts.Check(err)
	text, err := os.ReadFile(path)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[3]), text, 0o600))
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	ts.Check(err)
	client, err := dynamic.NewForConfig(config)
	ts.Check(err)
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		_, err := client.Resource(stack.Applications()).Namespace(args[1]).List(c.t.Context(), metav1.ListOptions{})
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s may not list Applications: %v", args[2], err)
		}
	}
}

// requests prints what a ServiceAccount has asked the API server for, each verb and
// resource once, and that it was refused if it was.
func (c clusters) requests(ts *testscript.TestScript, _ bool, args []string) {
	records, err := c.on(ts, args, 3, "requests cluster namespace account").Audit()
	ts.Check(err)
	var lines []string
	for _, r := range records {
		if r.User != "system:serviceaccount:"+args[1]+":"+args[2] || r.Resource == "" {
			continue // what the API server says of itself is no resource
		}
		line := r.Verb + " " + r.Resource
		if r.Code == http.StatusForbidden {
			line += " refused"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	for _, line := range slices.Compact(lines) {
		fmt.Fprintln(ts.Stdout(), line)
	}
}
