package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argocd-fabric/argocd-agent/cli/throwaway"
	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// patience is how long the world may take to come to what it is to be, once nothing fails any
// more: a line that is half open is noticed within 25 s, and waits after failures grow to as
// much.
const patience = 90 * time.Second

// bystander begins the names of objects that are nobody's copies and nobody's originals.
const bystander = "bystander"

// A world is a principal and its agents, over one transport.
type world struct {
	t         *testing.T
	carrier   carrier
	mapped    bool // by destination
	stack     *stack.Stack
	bin       string // the folder of the programs
	dir       string
	home      string // the principal's namespace
	desk      string // where it is asked
	principal *program
	estates   []*estate
	gates     map[*program]*gate
	agents    []*program

	model      model
	bystanders map[string]string // versions, by side, kind and name
	diary      diary
}

// newWorld starts the programs, which end with the test.
func newWorld(t *testing.T, s *stack.Stack, bin, name string, c carrier, mapped bool, modes ...resource.Mode) *world {
	w := &world{
		t: t, carrier: c, mapped: mapped, stack: s, bin: bin, dir: filepath.Join(s.Dir(), name), home: name + "-hub",
		gates: map[*program]*gate{}, model: newModel(modes...),
	}
	w.desk = "unix://" + filepath.Join(w.dir, "desk")
	require.NoError(t, os.MkdirAll(w.path("tmp"), 0o755))
	file, err := os.Create(w.path("diary.log"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	w.diary.file = file
	var names []string
	for _, h := range w.model {
		names = append(names, name+"-"+h.mode.String())
	}
	require.NoError(t, throwaway.Issue(w.path("pki"), names...))
	require.NoError(t, s.Cluster("hub").Namespace(t.Context(), w.home))
	listen := fmt.Sprint("127.0.0.1:", w.port())
	for i, h := range w.model {
		w.settle(names[i], h, listen)
	}
	w.plantBystanders()
	hub := end{dir: w.path("principal"), address: listen, monitor: fmt.Sprint("127.0.0.1:", w.port())}
	w.principal = w.program("principal", hub, s.Cluster("hub"), w.home, append(append(c.principal(hub), w.byDestination()...),
		w.certificate("tls", throwaway.Principal, "--admin-listen", w.desk)...)...)
	for _, e := range w.estates {
		spoke := end{dir: w.path(e.name), address: e.line.Addr(), monitor: fmt.Sprint("127.0.0.1:", w.port())}
		flags := c.agent(spoke)
		if e.spoke.mapped {
			flags = append(flags, w.byDestination()...)
		}
		w.agents = append(w.agents, w.program("agent", spoke, w.spoke(), e.spoke.home, append(flags,
			w.certificate("tls-client", e.name, "--agent-mode", e.mode.String())...)...))
	}
	w.run()
	return w
}

// settle makes room for an agent on both sides, and makes it known.
func (w *world) settle(name string, h *holdings, listen string) {
	t := w.t
	spokeHome, onHub := name+"-spoke", name
	onSpoke := spokeHome
	mapped := w.mapped && h.mode == resource.Managed // for others it is no other mapping
	if mapped {
		onHub, onSpoke = w.team(), w.team()
		require.NoError(t, w.stack.Cluster("hub").Namespace(t.Context(), onHub))
		require.NoError(t, w.spoke().Namespace(t.Context(), onSpoke))
	}
	require.NoError(t, w.spoke().Namespace(t.Context(), spokeHome))
	output, err := exec.CommandContext(t.Context(), filepath.Join(w.bin, "argocd-agentctl"), "agent", "create", name, "--mode", h.mode.String(),
		"--kubeconfig", w.stack.Cluster("hub").Kubeconfig(), "--principal-namespace", w.home, "--without-token").CombinedOutput()
	require.NoError(t, err, string(output))
	at := func(s resource.Side, cluster *stack.Cluster, apps, home string) site {
		return site{
			side: s, owner: (s == resource.Principal) == (h.mode == resource.Managed), agent: name, mode: h.mode, mapped: mapped,
			client: cluster.Dynamic(), apps: apps, home: home,
		}
	}
	e := &estate{
		holdings: h, name: name,
		hub:       at(resource.Principal, w.stack.Cluster("hub"), onHub, w.home),
		spoke:     at(resource.Agent, w.spoke(), onSpoke, spokeHome),
		line:      newLine(t, name, w.port(), listen),
		originals: map[key]string{}, ordered: map[string]bool{}, lost: map[string]bool{}, asked: map[string]bool{}, ended: map[string]bool{}, refresh: map[string]bool{},
	}
	e.controller = newController(e.spoke)
	w.estates = append(w.estates, e)
}

// program prepares a program, which reaches its cluster through a gate.
func (w *world) program(command string, e end, c *stack.Cluster, home string, args ...string) *program {
	require.NoError(w.t, os.MkdirAll(w.path("gate-"+home), 0o755))
	g, kubeconfig := newGate(w.t, c, w.path("gate-"+home))
	health, metrics := w.port(), w.port()
	p := &program{dir: e.dir, monitor: e.monitor, health: fmt.Sprint("http://127.0.0.1:", health), metrics: fmt.Sprint("http://127.0.0.1:", metrics)}
	p.Process = w.stack.Process(stack.ProcessConfig{
		Name: home,
		Path: filepath.Join(w.bin, "argocd-agent"),
		Args: append([]string{
			command, "--namespace", home, "--kubeconfig", kubeconfig, "--healthz-port", fmt.Sprint(health), "--metrics-port", fmt.Sprint(metrics),
		}, args...),
		Env: []string{"TMPDIR=" + w.path("tmp")},
	})
	w.gates[p] = g
	return p
}

// spoke returns the cluster of the agents. One that maps Applications by their destinations
// takes all copies in its cluster for its own, and has another than those of other worlds.
func (w *world) spoke() *stack.Cluster {
	if w.mapped {
		return w.stack.Cluster(apart)
	}
	return w.stack.Cluster("spoke")
}

// team is the namespace of Applications that are mapped by destination, on both sides.
func (w *world) team() string { return w.home + "-team" }

// byDestination returns the flags of a program that maps Applications so, if they are.
func (w *world) byDestination() []string {
	if !w.mapped {
		return nil
	}
	return []string{"--destination-based-mapping", "--allowed-namespaces", w.team()}
}

// certificate returns the flags of a certificate, and more of them.
func (w *world) certificate(flag, name string, more ...string) []string {
	f := throwaway.Files(w.path("pki"), name)
	return append([]string{"--root-ca-path", f.CA, "--" + flag + "-cert", f.Cert, "--" + flag + "-key", f.Key}, more...)
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) port() int {
	port, err := w.stack.Port()
	require.NoError(w.t, err)
	return port
}

func (w *world) programs() []*program { return append([]*program{w.principal}, w.agents...) }

// run keeps the programs and the controllers running until the test ends.
func (w *world) run() {
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	w.t.Cleanup(func() {
		stop()
		all.Wait()
		for _, p := range w.programs() {
			p.Kill()
		}
	})
	beside := func(what string, run func(context.Context) error) {
		all.Go(func() {
			if err := run(ctx); !errors.Is(err, context.Canceled) {
				w.t.Errorf("%s has failed: %v", what, err)
			}
		})
	}
	for _, p := range w.programs() {
		beside(p.Name(), p.run)
	}
	for _, e := range w.estates {
		beside("the controller of "+e.name, e.controller.run)
	}
}

// plantBystanders makes objects on both sides that no program may touch.
func (w *world) plantBystanders() {
	w.bystanders = map[string]string{}
	for _, e := range w.estates {
		for _, s := range []site{e.hub, e.spoke} {
			for _, kind := range kinds(e.mode) {
				if s.owner && kind != resource.Secret && s.side == resource.Principal {
					continue // all of them are the agent's
				}
				k := key{kind, bystander}
				u := s.object(k, 0, "")
				if s.owner {
					u.SetLabels(map[string]string{ignoreMark: "true"})
				}
				if kind == resource.Secret {
					u.SetLabels(nil)
				}
				_, err := s.in(kind).Create(w.t.Context(), u, metav1.CreateOptions{})
				require.NoError(w.t, err)
			}
		}
	}
	seen, err := w.seen(w.t.Context())
	require.NoError(w.t, err)
	w.bystanders = seen
}

// seen returns the versions of all bystanders.
func (w *world) seen(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	return out, w.each(ctx, func(s site, u *unstructured.Unstructured) {
		if k, ok := s.key(resource.Kind(u.GetKind()), u.GetName()); ok && k.name == bystander {
			out[fmt.Sprint(s.agent, s.side, k)] = string(u.GetUID()) + " " + u.GetResourceVersion()
		}
	})
}

// each shows all objects that could be an agent's.
func (w *world) each(ctx context.Context, f func(site, *unstructured.Unstructured)) error {
	for _, e := range w.estates {
		for _, s := range []site{e.hub, e.spoke} {
			for _, kind := range kinds(e.mode) {
				list, err := s.in(kind).List(ctx, metav1.ListOptions{})
				if err != nil {
					return err
				}
				for i := range list.Items {
					f(s, &list.Items[i])
				}
			}
		}
	}
	return nil
}

// ask returns who answers what may be asked of the principal.
func (w *world) ask() *admin.Client {
	c, err := admin.NewClient(w.desk)
	require.NoError(w.t, err)
	return c
}

// within waits until all checks succeed.
func (w *world) within(limit time.Duration, what string, checks ...func(context.Context) error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	start := time.Now()
	var last error // before the time was up
	err := stack.Poll(ctx, 500*time.Millisecond, func(ctx context.Context) error {
		var errs error
		for _, c := range checks {
			errs = errors.Join(errs, c(ctx))
		}
		if ctx.Err() == nil {
			last = errs
		}
		return errs
	})
	if err != nil {
		w.t.Log(w.diary.end())
	}
	require.NoError(w.t, errors.Join(err, last), what)
	w.t.Logf("%s after %.1f s", what, time.Since(start).Seconds())
}
