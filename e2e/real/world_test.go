package real

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/e2e/stack/stacktest"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

// patience is how long a story waits for what takes no more than seconds where nothing
// else runs.
const patience = 30 * time.Second

// argocd is the namespace of Argo CD and of our program on every cluster.
const argocd = stack.ArgoCDNamespace

// A world is what all stories are played on. Agent edge-1 is on the spoke where Argo CD
// runs; on that of edge-2 nothing but the agent and the stories write.
type world struct {
	stack      *stack.Stack
	clusters   []string // the names of all
	hub        *stack.Cluster
	dir        string // of the programs and what they keep
	kubeconfig string // with the administrator's context for each cluster, by its name
	principal  *program
	leafPort   int               // where the principal listens, over NATS
	grpcPort   int               // and over gRPC
	api        *netfault.Line    // from the principal to the hub's API server
	agents     map[string]*agent // that have been started
	stores     stores
	shipped    map[string]shipped // what deploy/ has on each cluster
	rights     map[string]rights  // by cluster
	fleet      bool               // edge-2 has the Applications of the fleet
	repos      map[string]*stack.GitRepo
	revoked    map[string][]span   // of the audit logs, by cluster: what is refused there is meant to be
	autonomous map[string]bool     // which agents are; all others are managed
	redis      string              // of the hub's Argo CD, where it runs
	proxies    proxies             // for it to see what is on the spokes
	mortals    bool                // the programs with failpoints are built
	flags      map[string][]string // further ones, by agent, "" for the principal
}

// An agent is one agent, and the place of its Applications on either side.
type agent struct {
	*program
	name       string
	hub, spoke place
	line       *netfault.Line // to the principal
}

// spokes says which cluster each agent is on.
var spokes = map[string]string{"edge-1": "spoke-1", "edge-2": "spoke-2", "edge": "spoke-2", "edge-3": "spoke-3"}

// newWorld starts the clusters and the principal, to which no agent has connected yet.
func newWorld(t *testing.T) *world {
	return newWorldOf(t, nil,
		stack.ClusterConfig{Name: "hub", CRDs: true, Controllers: true, Etcd: true}, // one of them empties namespaces
		stack.ClusterConfig{Name: "spoke-1", ArgoCD: true},
		stack.ClusterConfig{Name: "spoke-2", CRDs: true, Controllers: true}, // of which one ends foreground deletions
	)
}

// TestMain sets what all worlds share: they are played side by side, for each of them waits most
// of its time.
func TestMain(m *testing.M) {
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // about Argo CD's own finalizer
	if err := takeTurns(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// newWorldOf is newWorld of these clusters, with these agents being autonomous.
func newWorldOf(t *testing.T, autonomous []string, clusters ...stack.ClusterConfig) *world {
	flags := map[string][]string{}
	if *overGRPC {
		flags[""] = []string{grpc}
		for agent := range spokes {
			flags[agent] = []string{grpc}
		}
	}
	return newWorldBy(t, flags, autonomous, clusters...)
}

var overGRPC = flag.Bool("grpc", false, "have the agents of TestDisasters and TestAutonomous be there over gRPC")

// newWorldBy is newWorldOf where the principal, whose name is "", and agents have further
// flags.
func newWorldBy(t *testing.T, flags map[string][]string, autonomous []string, clusters ...stack.ClusterConfig) *world {
	s := stacktest.Start(t, stack.Config{Clusters: clusters})
	w := &world{stack: s, hub: s.Cluster("hub"), flags: flags, dir: filepath.Join(s.Dir(), "programs"), agents: map[string]*agent{}}
	w.repos, w.revoked, w.autonomous = map[string]*stack.GitRepo{}, map[string][]span{}, map[string]bool{}
	if clusters[0].Server {
		w.redis = w.hub.RedisAddress()
	}
	if clusters[0].RedisProxy {
		w.proxies = proxies{hub: w.hub, api: fmt.Sprint("127.0.0.1:", w.port(t))}
		for _, c := range clusters {
			if c.Shared {
				w.proxies.shared = append(w.proxies.shared, c.Name)
			}
		}
	}
	for _, agent := range autonomous {
		w.autonomous[agent] = true
	}
	for _, c := range clusters {
		w.clusters = append(w.clusters, c.Name)
	}
	require.NoError(t, os.MkdirAll(w.tmp(), 0o755))
	t.Cleanup(func() {
		for _, a := range w.agents {
			require.NoError(t, a.line.Close())
		}
		if w.api != nil {
			require.NoError(t, w.api.Close())
		}
	})
	w.build(t)
	w.writeKubeconfig(t)
	w.install(t)
	w.ctl(t, "pki", "init")
	w.ctl(t, "pki", "issue", "principal", "--ip", "127.0.0.1")
	if w.proxies.are() {
		w.ctl(t, "pki", "issue", "resource-proxy", "--ip", "127.0.0.1")
	}
	w.stores = newStores(t, w)
	w.leafPort, w.grpcPort = w.port(t), w.port(t)
	w.principal = w.newPrincipal(t)
	require.NoError(t, w.principal.Start(t.Context()))
	return w
}

// grpc among the flags of an agent has it connect over gRPC; the others do over NATS.
const grpc = "--transport=grpc"

// newPrincipal prepares the principal, which reaches the API server by a line of its own.
func (w *world) newPrincipal(t *testing.T, args ...string) *program {
	if w.api == nil {
		line, err := netfault.Listen(func() string { return strings.TrimPrefix(w.hub.URL(), "https://") })
		require.NoError(t, err)
		w.api = line
	}
	settings := map[string]string{
		"principal.nats.leaf-listen": fmt.Sprint("127.0.0.1:", w.leafPort), "principal.grpc.listen": fmt.Sprint("127.0.0.1:", w.grpcPort),
		"principal.admin.listen": w.desk(), "principal.metrics.port": "0", "principal.log.format": "text",
		"principal.redis.server.address": w.redis, "principal.redis.proxy.listen": "",
	}
	if w.redis != "" {
		args = append(args, "--stale-after", stale.String())
	}
	if w.proxies.are() {
		args = append(args, "--resource-proxy-address", w.proxies.api)
	}
	maps.Copy(settings, w.proxies.principal())
	return w.program(t, w.hub, w.principalAccount(t), oldClient, settings, append(args, w.flags[""]...)...)
}

// stale is how long an agent may be away before its cluster is shown as failed.
const stale = 5 * time.Second

// desk is where argocd-agentctl asks the principal.
func (w *world) desk() string { return "unix://" + filepath.Join(w.dir, "desk") }

// principalAccount returns the kubeconfig of the principal's ServiceAccount, by its line.
func (w *world) principalAccount(t *testing.T) string {
	kubeconfig := w.account(t, w.hub)
	text, err := os.ReadFile(kubeconfig)
	require.NoError(t, err)
	text = bytes.ReplaceAll(text, []byte(strings.TrimPrefix(w.hub.URL(), "https://")), []byte(w.api.Addr()))
	require.NoError(t, os.WriteFile(kubeconfig, text, 0o600))
	return kubeconfig
}

// account returns the kubeconfig of our program's ServiceAccount.
func (w *world) account(t *testing.T, c *stack.Cluster) string {
	kubeconfig, err := c.ServiceAccountKubeconfig(t.Context(), argocd, w.rights[c.Name()].account)
	require.NoError(t, err)
	return kubeconfig
}

// heal lets everybody reach everybody.
func (w *world) heal() {
	w.api.Set(netfault.Healthy)
	for _, a := range w.agents {
		a.line.Set(netfault.Healthy)
	}
}

// tmp is where the programs keep temporary files.
func (w *world) tmp() string { return filepath.Join(w.dir, "tmp") }

func (w *world) port(t *testing.T) int {
	port, err := w.stack.Port()
	require.NoError(t, err)
	return port
}

// build builds our two programs.
func (w *world) build(t *testing.T) {
	start := time.Now()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", w.dir, "./cli/argocd-agent", "./cli/argocd-agentctl")
	cmd.Dir = filepath.Join("..", "..")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, string(output))
	t.Logf("built the programs in %.1f s", time.Since(start).Seconds())
}

// writeKubeconfig writes the administrator's kubeconfig for all clusters.
func (w *world) writeKubeconfig(t *testing.T) {
	config := api.NewConfig()
	for _, name := range w.clusters {
		c := w.stack.Cluster(name)
		config.Clusters[name] = &api.Cluster{Server: c.URL(), CertificateAuthorityData: c.CA()}
		config.AuthInfos[name] = &api.AuthInfo{Token: c.Token()}
		config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	}
	config.CurrentContext = "hub"
	w.kubeconfig = filepath.Join(w.dir, "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, w.kubeconfig))
}

// ctl runs argocd-agentctl as an administrator, and returns what it says.
func (w *world) ctl(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(w.dir, "argocd-agentctl"), append(args, "--kubeconfig", w.kubeconfig)...)
	cmd.Env = []string{"TMPDIR=" + w.tmp()}
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, string(output))
	return string(output)
}

// register makes an agent known, and gives it its certificate.
func (w *world) register(t *testing.T, name string) {
	w.ctl(t, append([]string{"agent", "create", name, "--mode", w.mode(name)}, w.proxies.agent()...)...)
	w.ctl(t, "pki", "issue", "agent", name, "--agent-context", spokes[name])
}

// mode returns the mode of an agent.
func (w *world) mode(name string) string {
	if w.autonomous[name] {
		return "autonomous"
	}
	return "managed"
}

// agent returns an agent, which is registered and started when it is asked for first.
func (w *world) agent(t *testing.T, name string) *agent {
	t.Helper()
	if a := w.agents[name]; a != nil {
		return a
	}
	w.register(t, name)
	a := w.newAgent(t, name)
	require.NoError(t, a.Start(t.Context()))
	return a
}

// newAgent prepares the program of a registered agent.
func (w *world) newAgent(t *testing.T, name string) *agent {
	port := w.leafPort
	if slices.Contains(w.flags[name], grpc) {
		port = w.grpcPort
	}
	line, err := netfault.Listen(func() string { return fmt.Sprint("127.0.0.1:", port) })
	require.NoError(t, err)
	cluster := w.stack.Cluster(spokes[name])
	a := &agent{name: name, line: line}
	a.hub, a.spoke = place{w.hub, name, resource.Application}, place{cluster, argocd, resource.Application}
	host, at, err := net.SplitHostPort(line.Addr())
	require.NoError(t, err)
	client := newClient
	if name == "edge-1" {
		client = oldClient
	}
	settings := map[string]string{
		"agent.server.address": host, "agent.server.port": at, "agent.redis.address": "", "agent.metrics.port": "0", "agent.log.format": "text",
	}
	maps.Copy(settings, w.proxies.spoke(cluster))
	a.program = w.program(t, cluster, w.account(t, cluster), client, settings, w.flags[name]...)
	w.agents[name] = a
	return a
}
