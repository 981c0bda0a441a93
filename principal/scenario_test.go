package principal

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
	"github.com/argocd-fabric/argocd-agent/transport/natslink"
)

// A fleet is a principal over NATS, and what it takes to be one of its agents.
type fleet struct {
	*Principal
	t       *testing.T
	hub     *natslink.Hub
	store   *memstore.Store
	roll    roll
	stay    []backend.Agent // that are never removed
	dir     string
	ca      *pki.CA
	connect string
	monitor string
}

func startFleet(t *testing.T) *fleet {
	f := &fleet{t: t, store: memstore.New(memstore.Config{Name: "hub"}), roll: make(roll), dir: t.TempDir()}
	var err error
	f.ca, err = pki.NewCA("test", f.pki())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(f.dir, "ca.crt"), f.ca.Pair().Cert, 0o600))
	pair, err := f.ca.IssueServer("principal", []string{"127.0.0.1"}, f.pki())
	require.NoError(t, err)
	own, err := f.files("principal", pair).Credentials(time.Now())
	require.NoError(t, err)
	hub := common(f.dir, "hub")
	hub.MonitorListen = "127.0.0.1:0"
	f.hub, err = natslink.NewHub(natslink.HubConfig{Common: hub, Listen: "127.0.0.1:0", Credentials: own, Authenticate: identity.SubjectName})
	require.NoError(t, err)
	f.Principal, err = New(Config{Identity: "hub-1", Namespace: "argocd", Hub: f.hub, Store: f.store, Registry: f.roll, Tick: time.Second, Log: zap.NewNop()})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	f.connect, err = f.hub.Addr(ctx)
	require.NoError(t, err)
	f.monitor, err = f.hub.MonitorAddr(ctx)
	require.NoError(t, err)
	return f
}

func (f *fleet) pki() pki.Options { return pki.Options{Now: time.Now(), Lifetime: time.Hour} }

func (f *fleet) files(name string, pair pki.Pair) identity.Files {
	at := func(file string) string { return filepath.Join(f.dir, file) }
	files := identity.Files{CA: at("ca.crt"), Cert: at(name + ".crt"), Key: at(name + ".key")}
	require.NoError(f.t, os.WriteFile(files.Cert, pair.Cert, 0o600))
	require.NoError(f.t, os.WriteFile(files.Key, pair.Key, 0o600))
	return files
}

// common is what both ends have in common.
func common(dir, name string) natslink.Common {
	return natslink.Common{StoreDir: filepath.Join(dir, "store-"+name), Heartbeat: time.Second, Logger: zap.NewNop(), Presence: presence()}
}

// until returns when a store shows an object as it should be.
func until(t *testing.T, s *memstore.Store, k resource.Key, right func(resource.Object) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	shown := errors.New("shown")
	require.ErrorIs(t, s.Watch(ctx, backend.In(k.Namespace), func(e backend.Event) error {
		if e.Put != nil && e.Put.Key == k && right(*e.Put) {
			return shown
		}
		return nil
	}), shown)
}

// visit connects a new agent, whose certificate is in dir, waits until its one Application is
// there, reports its health, waits until the hub knows of it, and leaves.
func visit(t *testing.T, dir, connect, name string) {
	at := func(file string) string { return filepath.Join(dir, file) }
	own, err := identity.Files{CA: at("ca.crt"), Cert: at(name + ".crt"), Key: at(name + ".key")}.Credentials(time.Now())
	require.NoError(t, err)
	leaf, err := natslink.NewLeaf(natslink.LeafConfig{Common: common(dir, name), Agent: name, Connect: connect, Credentials: own})
	require.NoError(t, err)
	link, err := leaf.Dial(t.Context())
	require.NoError(t, err)
	store := memstore.New(memstore.Config{Name: name})
	s, err := session.New(session.Config{
		Engine: engine.Config{Side: resource.Agent, Rules: resource.Rules{Mode: resource.Managed}, Self: name},
		Store:  store, Link: link, Tick: time.Second,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) }) // until it is told to end
	until(t, store, app("", "web"), func(resource.Object) bool { return true })
	edit(store, app("", "web"), resource.Status, `{"health":{"status":"Healthy"}}`)
	require.Eventually(t, func() bool {
		_, err := os.Stat(at(name + ".seen"))
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	cancel()
	running.Wait()
	require.NoError(t, link.Close())
	require.NoError(t, os.RemoveAll(at("store-"+name)))
}

// visitsVariable tells a process of the test that it is to be agents: where the hub is, and
// their names.
const visitsVariable = "PRINCIPAL_TEST_VISITS"

// visits is the process of some agents, a few at a time. They have one of their own, so that
// what the hub takes can be told from what they take.
func visits(t *testing.T, dir, connect string, names []string) {
	const atOnce = 4
	next := make(chan string)
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for name := range next {
				visit(t, dir, connect, name)
			}
		})
	}
	for _, name := range names {
		next <- name
	}
	close(next)
	all.Wait()
}

// batch registers agents, has each of them visit, and removes them.
func (f *fleet) batch(first, n int) {
	set := slices.Clone(f.stay)
	var names []string
	for i := range n {
		name := fmt.Sprintf("agent-%03d", first+i)
		set, names = append(set, backend.Agent{Name: name}), append(names, name)
		edit(f.store, app(name, "web"), resource.Spec, `{"destination":{"name":"`+name+`","namespace":"web"},"project":"default"}`)
		pair, err := f.ca.IssueAgent(name, f.pki())
		require.NoError(f.t, err)
		f.files(name, pair)
	}
	f.roll <- set
	agents := exec.Command(os.Args[0], "-test.run=^"+f.t.Name()+"$", "-test.count=1")
	agents.Env = append(os.Environ(), visitsVariable+"="+strings.Join(append([]string{f.dir, f.connect}, names...), " "))
	ended := make(chan error, 1)
	var out []byte
	go func() {
		var err error
		out, err = agents.CombinedOutput()
		ended <- err
	}()
	for _, name := range names {
		until(f.t, f.store, app(name, "web"), func(o resource.Object) bool { return o.Parts[resource.Status] != "" })
		require.NoError(f.t, os.WriteFile(filepath.Join(f.dir, name+".seen"), nil, 0o600))
	}
	require.NoErrorf(f.t, <-ended, "%s", out)
	f.roll <- f.stay
	require.Eventually(f.t, func() bool { return len(f.Agents()) == len(f.stay) }, time.Minute, 10*time.Millisecond)
	for _, name := range names {
		f.store.Delete(app(name, "web"))
	}
}

// A footprint is what the hub holds.
type footprint struct {
	Kept, Streams, Accounts, Connections, Subscriptions, Goroutines int
	Heap                                                            uint64
}

func (f *fleet) footprint() footprint {
	kept, err := f.hub.Kept(f.t.Context())
	require.NoError(f.t, err)
	p := footprint{Kept: len(kept)}
	var js, all struct {
		Streams       int `json:"streams"`
		Connections   int `json:"connections"`
		Leafs         int `json:"leafnodes"`
		Subscriptions int `json:"subscriptions"`
	}
	f.get("/jsz", &js)
	f.get("/varz", &all)
	var accounts struct {
		Accounts []string `json:"accounts"`
	}
	f.get("/accountz", &accounts)
	p.Streams, p.Connections, p.Subscriptions = js.Streams, all.Connections+all.Leafs, all.Subscriptions
	p.Accounts = len(accounts.Accounts)
	http.DefaultClient.CloseIdleConnections()
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	p.Heap, p.Goroutines = m.HeapAlloc, runtime.NumGoroutine()
	return p
}

func (f *fleet) get(path string, into any) {
	r, err := http.Get("http://" + f.monitor + path)
	require.NoError(f.t, err)
	defer func() { require.NoError(f.t, r.Body.Close()) }()
	body, err := io.ReadAll(r.Body)
	require.NoError(f.t, err)
	require.NoError(f.t, json.Unmarshal(body, into))
}

// settled returns the least footprint, once it has been so for a while: what the last agents
// have used is given back by and by.
func (f *fleet) settled() footprint {
	least := f.footprint()
	for still := 0; still < 10; still++ {
		time.Sleep(time.Second)
		now := f.footprint()
		if now.Heap < least.Heap-least.Heap/100 {
			still = 0
		}
		if now.Heap < least.Heap {
			least = now
		}
	}
	return least
}

// within returns the first footprint that is no more than p, with a margin for the heap of
// one part in twenty, or the last: what ends by a timer, such as what is known of a closed
// connection, takes its time.
func (f *fleet) within(p footprint) (now footprint, ok bool) {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		now = f.footprint()
		ok = now.Kept == p.Kept && now.Streams == p.Streams && now.Accounts <= p.Accounts && now.Connections <= p.Connections &&
			now.Subscriptions <= p.Subscriptions && now.Goroutines <= p.Goroutines && now.Heap <= p.Heap+p.Heap/20
		if ok || time.Now().After(deadline) {
			return now, ok
		}
	}
}

// comers is 2,000 for the whole of the scenario, which takes ten times as long.
var comers = flag.Int("comers", 200, "how many agents come and go in TestScenario08_AgentsComeAndGo")

// TestScenario08_AgentsComeAndGo: 200 agents connect, have one Application in step, leave
// and are removed, next to some that stay. Nothing of them is left, and what the hub takes is
// what it took after the first few.
func TestScenario08_AgentsComeAndGo(t *testing.T) {
	if given := strings.Fields(os.Getenv(visitsVariable)); len(given) > 2 {
		visits(t, given[0], given[1], given[2:])
		return
	}
	const stay, warm = 60, 40
	names := *comers
	f := startFleet(t)
	for i := range stay {
		f.stay = append(f.stay, backend.Agent{Name: fmt.Sprintf("stays-%02d", i)})
	}
	f.batch(0, warm)
	before := f.settled()
	require.Equal(t, stay, before.Kept)
	require.Equal(t, 2*stay, before.Streams)
	for first := warm; first < warm+names; first += warm {
		f.batch(first, warm)
	}
	after, ok := f.within(before)
	require.Truef(t, ok, "before %+v, now %+v", before, after)
	t.Logf("before %+v, after %d names %+v", before, names, after)
}
