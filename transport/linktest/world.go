package linktest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// patience is how long a test may take. Reaching it is a failure.
const patience = 3 * time.Minute

// A world is a Network with the processes that one test runs on it.
type world struct {
	*testing.T
	Network
	traits Traits
	// reconnects is the Adapter's.
	reconnects int
	ctx        context.Context
	hub        transport.Hub // nil while it is stopped
	ends       []*end        // that were opened
	numbers    int           // messages made
}

// newWorld returns a world without processes. When the test ends, so do its Links, its
// processes and the Network, in this order, and no goroutine may be left.
func newWorld(t *testing.T, a Adapter) *world {
	if !a.SideBySide {
		before := goleak.IgnoreCurrent()
		t.Cleanup(func() { goleak.VerifyNone(t, before) })
	}
	w := &world{T: t, traits: a.Traits, reconnects: a.Reconnects, Network: a.New(t)}
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, fmt.Errorf("not within %v", patience))
	w.ctx = ctx
	t.Cleanup(func() {
		w.finish()
		cancel()
	})
	return w
}

// finish ends what runs, also after the test has failed.
func (w *world) finish() {
	for _, e := range w.ends {
		if err := e.link.Close(); err != nil {
			w.Errorf("link to %s: close: %v", e.link.Peer(), err)
		}
		if err := e.End(); !errors.Is(err, transport.ErrClosed) && !w.Failed() {
			w.Errorf("link to %s: %v", e.link.Peer(), err)
		}
	}
	if w.hub != nil {
		w.stopHub()
	}
}

func (w *world) startHub() {
	w.hub = w.StartHub(w.T)
}

func (w *world) stopHub() {
	w.StopHub(w.T)
	w.hub = nil
}

// An end is one open Link and its Reader.
type end struct {
	w    *world
	link transport.Link
	*Reader
}

// openHub opens the principal's Link to an agent, and begins to read.
func (w *world) openHub(agent string) *end {
	l, err := w.hub.Link(w.ctx, agent)
	require.NoError(w, err)
	return w.open(l, true)
}

// openAgent starts a process of an agent, opens its Link, and begins to read.
func (w *world) openAgent(agent string) *end {
	return w.open(w.dial(agent), true)
}

func (w *world) dial(agent string) transport.Link {
	l, err := w.StartAgent(w.T, agent).Dial(w.ctx)
	require.NoError(w, err)
	return l
}

func (w *world) open(l transport.Link, ack bool) *end {
	e := &end{w: w, link: l, Reader: Read(w.ctx, l, ack)}
	w.ends = append(w.ends, e)
	return e
}

// pair starts the hub if need be and opens both ends of the Link to an agent.
func (w *world) pair(agent string) (h, a *end) {
	if w.hub == nil {
		w.startHub()
	}
	return w.openHub(agent), w.openAgent(agent)
}

// close closes the Link, again if need be, and waits until its Reader has ended.
func (e *end) close() {
	require.NoError(e.w, e.link.Close())
	require.ErrorIs(e.w, e.End(), transport.ErrClosed)
}

// await waits until what was seen is as it should be.
func (e *end) await(what string, ok func(*Seen) bool) {
	e.w.Helper()
	err := e.Wait(e.w.ctx, ok)
	require.NoErrorf(e.w, err, "link to %s: waiting for %s", e.link.Peer(), what)
}

func (e *end) awaitUp()   { e.w.Helper(); e.await("up", func(s *Seen) bool { return s.Peer != nil }) }
func (e *end) awaitDown() { e.w.Helper(); e.await("down", func(s *Seen) bool { return s.Peer == nil }) }

func (e *end) awaitReplayed() {
	e.w.Helper()
	e.await("replayed", func(s *Seen) bool { return s.Replayed })
}

// A table is what one side has sent last, by key.
type table map[string]transport.Message

// send sends a new value for each of the keys, in order, and notes it in t.
func (e *end) send(t table, keys ...string) {
	e.w.Helper()
	for _, k := range keys {
		e.put(t, message(k, e.w.next()))
	}
}

// drop sends a tombstone for each of the keys, and notes it in t.
func (e *end) drop(t table, keys ...string) {
	e.w.Helper()
	for _, k := range keys {
		e.put(t, tombstone(k, e.w.next()))
	}
}

func (e *end) put(t table, m transport.Message) {
	e.w.Helper()
	require.NoErrorf(e.w, e.link.Send(e.w.ctx, m), "send %q", m.Key)
	t[m.Key] = m
}

// next returns a number that was not used before.
func (w *world) next() int {
	w.numbers++
	return w.numbers
}

// awaitValues waits until the last values seen of the keys of t are those in t.
// Tombstones may have been forgotten.
func (e *end) awaitValues(t table) {
	e.w.Helper()
	if err := e.Wait(e.w.ctx, func(s *Seen) bool { return len(missing(t, s)) == 0 }); err != nil {
		e.Look(func(s *Seen) {
			require.NoErrorf(e.w, err, "link to %s: waiting for %.20q", e.link.Peer(), missing(t, s))
		})
	}
}

// awaitTable waits for the values of t, and demands that they are whole and that no other
// key was seen.
func (e *end) awaitTable(t table) {
	e.w.Helper()
	e.awaitValues(t)
	e.Look(func(s *Seen) { e.w.judge(t, s) })
}

// judge demands that s holds nothing but the values of t.
func (w *world) judge(t table, s *Seen) {
	w.Helper()
	for k, v := range s.Values {
		if _, sent := t[k]; !sent {
			require.Failf(w, "foreign key", "%q was never sent: %+v", k, headersOf(v.Message))
		}
		w.same(t[k], v.Message)
	}
}

// missing returns the keys of t whose last value s does not have.
func missing(t table, s *Seen) []string {
	var keys []string
	for k, m := range t {
		v, known := s.Values[k]
		if !known && m.Tombstone() {
			continue
		}
		if !known || count(v.Message) != count(m) {
			keys = append(keys, k)
		}
	}
	return keys
}

// keys returns n keys that begin with prefix.
func keys(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s%03d", prefix, i)
	}
	return all
}
