package natscluster

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/cli/command"
	"github.com/argocd-fabric/argocd-agent/cli/control"
	"github.com/argocd-fabric/argocd-agent/cli/natskeys"
	"github.com/argocd-fabric/argocd-agent/cli/natsservers"
	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

// patience is how long anything may take.
const patience = time.Minute

// asProgram is the variable by which this test's own program is one of the product's.
const asProgram = "NATSCLUSTER_PROGRAM"

func TestMain(m *testing.M) {
	switch os.Getenv(asProgram) {
	case "argocd-agent":
		os.Exit(command.Main(os.Args, os.Stdout, os.Stderr))
	case "argocd-agentctl":
		os.Exit(control.Main(os.Args, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// A world is a cluster of servers, a principal and agents.
type world struct {
	dir       string
	ports     *stack.Ports
	places    []natsservers.Place
	nodes     []*stack.Process
	doors     []*door
	principal *stack.Process
	buckets   string // the URL of the server that has everybody's objects
	js        jetstream.JetStream
}

// The agents, by how they come.
var agents = map[string]string{"edge-leaf": "leaf", "edge-client": "client"}

// newServers starts a world of servers only.
func newServers(t *testing.T, ctx context.Context) *world {
	ports, err := stack.NewPorts()
	require.NoError(t, err)
	t.Cleanup(ports.Release)
	w := &world{dir: t.TempDir(), ports: ports}
	t.Cleanup(func() { w.tellLogs(t) })
	w.setUp(t, ctx)
	w.startNodes(t, ctx)
	return w
}

func newWorld(t *testing.T) *world {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w := newServers(t, ctx)
	w.openBuckets(t)
	w.startPrograms(t, ctx)
	return w
}

// openBuckets starts the server that stands for all clusters. It is none of those that are hurt.
func (w *world) openBuckets(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(patience))
	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	w.js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(patience))
	require.NoError(t, err)
	w.buckets = s.ClientURL()
}

// operated has the servers be in operator mode.
var operated = flag.Bool("operator", false, "have the NATS servers be in operator mode")

// setUp makes certificates and keys as people do.
func (w *world) setUp(t *testing.T, ctx context.Context) {
	keys := "nats init --ip 127.0.0.1"
	if *operated {
		keys += " --operator"
	}
	for _, line := range []string{
		"pki init", "pki issue principal --ip 127.0.0.1", "pki issue agent edge-leaf", "pki issue agent edge-client", keys,
	} {
		w.control(t, ctx, append(strings.Fields(line), "--dir", w.path("pki"))...)
	}
	for agent := range agents {
		w.control(t, ctx, "agent", "create", agent, "--agents-file", w.path("agents.yaml"))
	}
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// control runs argocd-agentctl.
func (w *world) control(t *testing.T, ctx context.Context, args ...string) {
	p := stack.NewProcess(stack.ProcessConfig{Name: "argocd-agentctl", Path: self(t), Args: args, Env: w.env("argocd-agentctl"), Log: w.path("argocd-agentctl.log")})
	require.NoError(t, p.Start(ctx))
	if err := p.Wait(ctx); err != nil {
		said, _ := os.ReadFile(p.Log())
		require.NoError(t, err, "%v: %s", args, said)
	}
}

func (w *world) env(program string) []string {
	return []string{asProgram + "=" + program, "TMPDIR=" + os.TempDir(), "HOME=" + w.dir, "ARGOCD_PRINCIPAL_METRICS_PORT=0", "ARGOCD_AGENT_METRICS_PORT=0"}
}

func self(t *testing.T) string {
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

func (w *world) port(t *testing.T) int {
	port, err := w.ports.Take()
	require.NoError(t, err)
	return port
}

// keys reads what nats init has made for the servers.
func (w *world) keys(t *testing.T) natskeys.Set {
	set := natskeys.Set{Servers: map[string][]byte{}}
	known := natskeys.Keys
	if *operated {
		known = natskeys.Accounts
	}
	for _, name := range []string{known, natskeys.Routes, natskeys.Cert, natskeys.Key, natskeys.CA} {
		text, err := os.ReadFile(w.path("pki/nats/" + name))
		require.NoError(t, err)
		set.Servers[name] = text
	}
	return set
}

func (w *world) place(t *testing.T, name string) natsservers.Place {
	return natsservers.Place{Name: name, Dir: w.path(name), Client: w.port(t), Leaf: w.port(t), Route: w.port(t), Monitor: w.port(t)}
}

// startNodes starts the cluster.
func (w *world) startNodes(t *testing.T, ctx context.Context) {
	program, err := stack.NATSServer(ctx, t.Output())
	require.NoError(t, err)
	for i := range 3 {
		w.places = append(w.places, w.place(t, fmt.Sprintf("nats-%d", i)))
	}
	paths, err := natsservers.Write(w.keys(t), w.places...)
	require.NoError(t, err)
	var all errgroup.Group
	for i, path := range paths {
		url := "http://" + natsservers.Addr(w.places[i].Monitor) + "/healthz"
		node := stack.NewProcess(stack.ProcessConfig{
			Name: w.places[i].Name, Path: program, Args: []string{"--config", path}, Log: w.path(w.places[i].Name + ".log"),
			Ready: stack.Answers(nil, url),
		})
		t.Cleanup(node.Kill)
		w.nodes = append(w.nodes, node)
		all.Go(func() error { return node.Start(ctx) })
	}
	require.NoError(t, all.Wait())
}

// A door is where one agent connects: it leads to one of the servers that run, as a Service does.
type door struct {
	*netfault.Line
	at atomic.Int32 // the server that the last connection was led to
}

func (w *world) openDoor(t *testing.T, first int, port func(natsservers.Place) int) *door {
	d := &door{}
	next := first
	var mu sync.Mutex
	line, err := netfault.Listen(func() string {
		mu.Lock()
		defer mu.Unlock()
		for range w.nodes {
			i := next % len(w.nodes)
			next++
			if w.nodes[i].Running() {
				d.at.Store(int32(i))
				return natsservers.Addr(port(w.places[i]))
			}
		}
		return ""
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = line.Close() })
	d.Line = line
	return d
}

// startPrograms starts the principal and the agents, and waits until they are ready.
func (w *world) startPrograms(t *testing.T, ctx context.Context) {
	var urls []string
	for _, p := range w.places {
		urls = append(urls, p.URL())
	}
	made := func(file string) string { return w.path("pki/nats/principal/" + file) }
	known := []string{"--nats-nkey", made(natskeys.User)}
	if *operated {
		known = []string{"--nats-creds", made(natskeys.Creds), "--nats-system-creds", made(natskeys.SystemCreds), "--nats-callout-xkey", made(natskeys.XKey)}
	}
	w.principal = w.program(t, "principal", "principal", append(known,
		"--nats-url", strings.Join(urls, ","), "--nats-replicas", "3", "--nats-callout-seed", made(natskeys.Issuer),
		"--nats-tls-cert", made(natskeys.Cert), "--nats-tls-key", made(natskeys.Key),
		"--agents-file", w.path("agents.yaml"), "--backend-nats-bucket", "hub", "--admin-listen", "",
		"--tls-cert", w.path("pki/principal.crt"), "--tls-key", w.path("pki/principal.key"),
	)...)
	require.NoError(t, w.principal.Start(ctx))
	for name, mode := range agents {
		port := func(p natsservers.Place) int { return p.Leaf }
		if mode == "client" {
			port = func(p natsservers.Place) int { return p.Client }
		}
		d := w.openDoor(t, len(w.doors), port)
		w.doors = append(w.doors, d)
		_, at, _ := strings.Cut(d.Addr(), ":")
		require.NoError(t, w.program(t, name, "agent",
			"--nats-mode", mode, "--nats-store-dir", w.path(name+".nats"), "--agent-mode", "managed", "--server-address", "127.0.0.1", "--server-port", at, "--backend-nats-bucket", name,
			"--tls-client-cert", w.path("pki/agents/"+name+".crt"), "--tls-client-key", w.path("pki/agents/"+name+".key"),
		).Start(ctx))
	}
}

// program prepares one of the product's programs.
func (w *world) program(t *testing.T, name, what string, args ...string) *stack.Process {
	health := w.port(t)
	p := stack.NewProcess(stack.ProcessConfig{
		Name: name, Path: self(t), Env: w.env("argocd-agent"), Log: w.path(name + ".log"),
		Args: append([]string{
			what, "--backend", "nats", "--backend-nats-url", w.buckets, "--root-ca-path", w.path("pki/ca.crt"),
			"--state-dir", w.path(name + ".d"), "--healthz-port", fmt.Sprint(health),
		}, args...),
		Ready: stack.Answers(nil, fmt.Sprintf("http://127.0.0.1:%d/readyz", health)),
	})
	t.Cleanup(p.Kill)
	return p
}

// tellLogs shows what everybody has said, if it has gone wrong.
func (w *world) tellLogs(t *testing.T) {
	if !t.Failed() {
		return
	}
	logs, _ := filepath.Glob(w.path("*.log"))
	for _, path := range logs {
		text, _ := os.ReadFile(path)
		t.Logf("%s:\n%s", filepath.Base(path), text[max(0, len(text)-6000):])
	}
}
