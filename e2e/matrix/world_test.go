package matrix

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/cli/throwaway"
	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

// patience is how long a story waits for what takes no more than seconds where nothing else
// runs.
const patience = time.Minute

// A world is what one story is told on: an agent, the clusters of both sides, the line between
// them, and the two programs.
type world struct {
	combination
	t    *testing.T
	name string // of the agent
	dir  string
	desk string // where the principal is asked

	hub, spoke *side
	line       *netfault.Line
	controller *controller
}

// worlds is how many there were: each has names of its own.
var worlds atomic.Int64

// newWorld starts the programs of a story, which end with the test.
func newWorld(t *testing.T, g ground, c combination) *world {
	n := worlds.Add(1)
	dir, err := os.MkdirTemp("", "matrix-") // short: a socket is there
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	w := &world{combination: c, t: t, name: fmt.Sprint("edge-", n), dir: dir, desk: "unix://" + filepath.Join(dir, "desk")}
	require.NoError(t, throwaway.Issue(w.path("pki"), w.name))
	w.hub, w.spoke = w.newSide(resource.Principal, fmt.Sprint("hub-", n)), w.newSide(resource.Agent, fmt.Sprint("spoke-", n))
	w.hub.apps, w.spoke.apps = c.mapping.place(w)
	w.connect(g)
	for _, s := range []*side{w.hub, w.spoke} {
		s.cluster, err = g.cluster(w, s)
		require.NoError(t, err)
	}
	w.controller = startController(w)
	w.hub.program, w.spoke.program, err = g.programs(w)
	require.NoError(t, err)
	t.Cleanup(func() { w.stop(w.spoke); w.stop(w.hub) })
	w.start(w.hub)
	w.start(w.spoke)
	return w
}

// connect lays the line, and says to both programs where they find each other.
func (w *world) connect(g ground) {
	port := func() int {
		p, err := g.port()
		require.NoError(w.t, err)
		return p
	}
	at := func(port int) string { return fmt.Sprint("127.0.0.1:", port) }
	listen := at(port())
	line, err := netfault.Listen(func() string { return listen })
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, line.Close()) })
	w.line = line
	certs := w.path("pki")
	w.hub.ends = ends{dir: w.path("principal"), certs: certs, name: throwaway.Principal, address: listen, monitor: at(port())}
	w.spoke.ends = ends{dir: w.path("agent"), certs: certs, name: w.name, address: line.Addr(), monitor: at(port())}
	w.hub.health, w.spoke.health = port(), port()
}

// beside runs something beside the story until the test ends.
func (w *world) beside(what string, run func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			w.t.Errorf("%s has failed: %v", what, err)
		}
	})
}

// path returns that of something in the world's folder.
func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) stop(s *side) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), patience)
	defer cancel()
	require.NoError(w.t, s.program.Stop(ctx), "%s ends", s.Side)
}

func (w *world) start(s *side) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	require.NoError(w.t, s.program.Start(ctx), "%s starts", s.Side)
}

// restart stops a program and starts it again.
func (w *world) restart(s *side) {
	w.stop(s)
	w.start(s)
}

// forgets removes all that a program has kept, which must not run.
func (w *world) forgets(s *side) { require.NoError(w.t, os.RemoveAll(s.ends.dir)) }

// cut cuts the line, and returns once both sides may have noticed.
func (w *world) cut() { w.line.Set(netfault.Cut) }

func (w *world) heal() { w.line.Set(netfault.Healthy) }

// owner returns the side of originals, and other that of copies.
func (w *world) owner() *side {
	if w.mode == resource.Autonomous {
		return w.spoke
	}
	return w.hub
}

func (w *world) other() *side {
	if w.mode == resource.Autonomous {
		return w.hub
	}
	return w.spoke
}

// sees waits until all checks succeed.
func (w *world) sees(what string, checks ...check) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	var last error // before the time was up
	err := stack.Poll(ctx, 200*time.Millisecond, func(ctx context.Context) error {
		var errs error
		for _, c := range checks {
			errs = errors.Join(errs, c(ctx))
		}
		if ctx.Err() == nil {
			last = errs
		}
		return errs
	})
	require.NoError(w.t, errors.Join(err, last), what)
}

// A check says what is not yet as it should be.
type check func(context.Context) error

// ask returns who answers what may be asked of a running principal.
func (w *world) ask() *admin.Client {
	c, err := admin.NewClient(w.desk)
	require.NoError(w.t, err)
	return c
}
