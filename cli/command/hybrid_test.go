package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/principal/hybrid"
)

// A roll is a registry whose agents do not change.
type roll []string

func (r roll) Watch(ctx context.Context, f func([]backend.Agent) error) error {
	var agents []backend.Agent
	for _, name := range r {
		agents = append(agents, backend.Agent{Name: name})
	}
	if err := f(agents); err != nil {
		return fmt.Errorf("roll: %w", err)
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// A silent registry is never listed.
type silent struct{}

func (silent) Watch(ctx context.Context, _ func([]backend.Agent) error) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// A hubScene is a hub of which a warden is told.
type hubScene struct {
	warden
	facts atomic.Pointer[hubFacts]
	log   *observer.ObservedLogs
}

// hubFacts is what there is to be found.
type hubFacts struct {
	found  []hybrid.Controller
	err    error
	agents []string
}

func newHubScene() *hubScene {
	core, log := observer.New(zapcore.InfoLevel)
	s := &hubScene{log: log}
	s.warden.log = zap.New(core)
	s.controllers = func(context.Context) ([]hybrid.Controller, error) { f := s.facts.Load(); return f.found, f.err }
	return s
}

// said returns what was said since it was asked last.
func (s *hubScene) said() (lines []string) {
	for _, l := range s.log.TakeAll() {
		lines = append(lines, l.Level.String()+": "+l.Message)
	}
	return lines
}

func controllerIn(namespaces ...string) []hybrid.Controller {
	return []hybrid.Controller{{Name: "StatefulSet argocd/controller", Version: "v2.14.21", Namespaces: namespaces}}
}

var errForbidden = fmt.Errorf("kubestore: list: %w", fs.ErrPermission)

func TestAPrincipalIsAdmitted(t *testing.T) {
	broken := errors.New("API server is away")
	for about, c := range map[string]struct {
		found    []hybrid.Controller
		err      error
		registry backend.Registry
		want     string
		says     int
	}{
		"no controller, whatever the registry does": {nil, nil, silent{}, "", 0},
		"a controller that leaves agents alone":     {controllerIn("team-*"), nil, roll{"edge-1"}, "", 0},
		"one that does not":                         {controllerIn("edge-*"), nil, roll{"edge-1"}, "StatefulSet argocd/controller (Argo CD v2.14.21) would reconcile", 0},
		"one beside an unknown registry":            {controllerIn("team-*"), nil, silent{}, "list the registry of agents: it was not listed in 30s", 0},
		"one that nobody may look for":              {nil, errForbidden, roll{"edge-1"}, "", 1},
		"one that cannot be looked for":             {nil, broken, roll{"edge-1"}, broken.Error(), 0},
	} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newHubScene()
				s.facts.Store(&hubFacts{found: c.found, err: c.err})
				err := s.admit(t.Context(), c.registry)
				if c.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, c.want)
				}
				require.Len(t, s.said(), c.says)
			})
		})
	}
}

func TestAPrincipalWithoutAClusterIsAdmitted(t *testing.T) {
	require.NoError(t, new(warden).admit(t.Context(), silent{}))
}

// TestAControllerThatComesLater is told once, by a metric for as long as it is there, and so
// is its end; and so is that nobody may look.
func TestAControllerThatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHubScene()
		s.facts.Store(&hubFacts{found: controllerIn("edge-2"), agents: []string{"edge-1"}})
		require.NoError(t, s.admit(t.Context(), roll{"edge-1"}))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.run(ctx, func() []string { return s.facts.Load().agents }) }()
		looks := func(f *hubFacts) []string {
			s.facts.Store(f)
			<-time.After(3*wardenInterval + time.Second)
			synctest.Wait()
			return s.said()
		}
		require.Empty(t, looks(s.facts.Load()))
		require.Equal(t, []string{"error: a controller of the control plane reconciles agents' Applications"},
			looks(&hubFacts{found: controllerIn("edge-2"), agents: []string{"edge-1", "edge-2"}}))
		require.True(t, s.conflict.Load())
		require.Equal(t, []string{"warn: it is not known whether a controller of the control plane reconciles agents' Applications"},
			looks(&hubFacts{err: errForbidden}))
		require.True(t, s.conflict.Load(), "it is taken to be as it was")
		require.Equal(t, []string{"info: no controller of the control plane reconciles agents' Applications any more"}, looks(&hubFacts{}))
		require.False(t, s.conflict.Load())
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}
