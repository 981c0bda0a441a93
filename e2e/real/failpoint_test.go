package real

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/cli/failpoint"
	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

var (
	failpointSeed = flag.Uint64("seed", 1, "of the first run of the failpoints")
	failpointRuns = flag.Int("failpoint-runs", 1, "how often the failpoints are run, each time with the next seed")
)

// A failure is one program that dies the n-th time that it comes to a point.
type failure struct {
	agent bool // else it is the principal
	point failpoint.Point
	n     int
}

// String returns program@point:n.
func (f failure) String() string {
	program := "principal"
	if f.agent {
		program = "agent"
	}
	return fmt.Sprintf("%s@%s:%d", program, f.point, f.n)
}

// failures are all points that a program can reach in managed mode: a principal neither
// creates nor removes Applications.
func failures() (out []failure) {
	for _, p := range failpoint.Points() {
		out = append(out, failure{agent: true, point: p})
		switch p {
		case failpoint.BeforeCreate, failpoint.AfterCreate, failpoint.BeforeRemove, failpoint.AfterRemove:
		default:
			out = append(out, failure{point: p})
		}
	}
	return out
}

// failpoints: each program is killed at each point of its work while both sides change,
// and started again. Nothing is lost, nothing is harmed, and every operation runs once.
func failpoints(t *testing.T, w *world) {
	w.buildFailpoints(t)
	require.GreaterOrEqual(t, len(failures()), 24)
	m := newMix(t, w)
	for run := range *failpointRuns {
		seed := *failpointSeed + uint64(run)
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) { m.run(t, w, seed) })
		if t.Failed() {
			return // what comes then would only hide why
		}
	}
}

// run lets the programs die at all points, in an order, at times and among changes that the
// seed decides.
func (m *mix) run(t *testing.T, w *world, seed uint64) {
	start := time.Now()
	m.rnd, m.bag = rand.New(rand.NewPCG(seed, 0)), nil
	// What it removed for being absent an agent remembers for a day, and counts together.
	// All runs in a row are one morning.
	m.agent.Kill()
	w.wipe(t, m.agent.program)
	require.NoError(t, m.agent.Start(t.Context()))
	within(t, time.Minute, w.inStep)

	deaths := failures()
	m.rnd.Shuffle(len(deaths), func(i, j int) { deaths[i], deaths[j] = deaths[j], deaths[i] })
	for i := range deaths {
		deaths[i].n = 1 + m.rnd.IntN(deaths[i].most())
	}
	t.Logf("seed %d: %v", seed, deaths)
	for i, f := range deaths {
		m.die(t, w, f)
		if i%4 == 3 {
			within(t, time.Minute, w.inStep)
		}
	}
	m.settle(t, w)
	t.Logf("seed %d: died at %d points among %d changes, of which %d were operations, in %.1f s",
		seed, len(deaths), m.made, m.syncs.asked, time.Since(start).Seconds())
}

// most is how far the time at which a point is deadly may lie from the start of a program:
// it begins by taking in what it was told before.
func (f failure) most() int {
	switch f.point {
	case failpoint.Receive, failpoint.BeforeAck, failpoint.AfterAck:
		return 2 * mixSize
	default:
		return 3
	}
}

// pace is the time between two changes.
const pace = 100 * time.Millisecond

// die has a program die, and starts it again.
func (m *mix) die(t *testing.T, w *world, f failure) {
	t.Helper()
	p := w.principal
	if f.agent {
		p = m.agent.program
	}
	p.Kill()
	mortal := w.mortal(p, fmt.Sprintf("%s:%d", f.point, f.n))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_ = mortal.Start(ctx) // an error is that it has died before it was ready
	for mortal.Running() && ctx.Err() == nil {
		m.change(t)
		wait, stop := context.WithTimeout(ctx, pace)
		_ = mortal.Wait(wait)
		stop()
	}
	require.NoError(t, ctx.Err(), "%s has not happened", f)
	err := mortal.Wait(ctx)
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%s: %v", f, err)
	status, ok := exit.Sys().(syscall.WaitStatus)
	require.True(t, ok && status.Signaled() && status.Signal() == syscall.SIGKILL, "%s: %v", f, err)
	m.change(t)
	require.NoError(t, p.Start(t.Context()))
}

// mortal returns one of our programs as it is, but for the point at which it dies.
func (w *world) mortal(p *program, at string) *stack.Process {
	c := p.Config()
	c.Name += "-mortal"
	c.Log = p.Log()
	c.Path = filepath.Join(w.dir, "failpoints", "argocd-agent")
	c.Env = append(slices.Clone(c.Env), failpoint.Variable+"="+at)
	return w.stack.Process(c)
}

// buildFailpoints builds our programs with failpoints, of which those that are shipped have
// nothing.
func (w *world) buildFailpoints(t *testing.T) {
	mortal := filepath.Join(w.dir, "failpoints", "argocd-agent")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-tags", "failpoints", "-o", mortal, "./cli/argocd-agent")
	cmd.Dir = filepath.Join("..", "..")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, string(output))
	for path, has := range map[string]bool{mortal: true, filepath.Join(w.dir, "argocd-agent"): false} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, has, bytes.Contains(text, []byte(failpoint.Variable)), path)
	}
	w.principal.stop(t)
	err = w.mortal(w.principal, "nowhere:1").Start(t.Context())
	require.ErrorContains(t, err, "exit status 2")
	require.ErrorContains(t, err, `"nowhere" is no point`)
	require.NoError(t, w.principal.Start(t.Context()))
}
