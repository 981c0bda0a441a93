package session_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/sync/trail"
)

// notes are what a Witness was told, in short.
type notes struct {
	mu    sync.Mutex
	all   []string
	heard []trail.Heard
	sent  []trail.Sent
	wrote []trail.Wrote
	trace string // that it has travel
}

func (n *notes) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, fmt.Sprintf(format, args...))
}

func (n *notes) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	text := strings.Join(n.all, ", ")
	n.all = nil
	return text
}

func (n *notes) Sending(s trail.Sent) string {
	n.add("sending again=%t", s.Again)
	return n.trace
}

func (n *notes) Sent(s trail.Sent) {
	n.add("sent %t", s.Err == nil)
	n.sent = append(n.sent, s)
}

func (n *notes) Heard(h trail.Heard) {
	n.add("heard kept=%t", h.Kept)
	n.heard = append(n.heard, h)
}

func (n *notes) Wrote(w trail.Wrote) {
	n.add("wrote %d removed=%t overtaken=%t %s", w.Outcome, w.Removed, w.Overtaken, w.Text)
	n.wrote = append(n.wrote, w)
}

// witnessed gives both sides a Witness.
func (r *rig) witnessed() (hub, spoke *notes) {
	hub, spoke = &notes{trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, &notes{}
	r.hub.tune = func(c *session.Config) { c.Witness = hub }
	r.spoke.tune = func(c *session.Config) { c.Witness = spoke }
	return hub, spoke
}

func TestAWitnessIsToldOfAChangeOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		hub, spoke := r.witnessed()
		r.start()
		settle(3 * time.Second)
		before := time.Now()
		r.hub.set("a", resource.Spec, `{"n":1}`)
		settle(0)
		require.Equal(t, "sending again=false, sent true", hub.take())
		require.Equal(t, "heard kept=false, wrote 0 removed=false overtaken=false ", spoke.take(), "a copy without a status says nothing")
		down, at := hub.sent[0], spoke.heard[0]
		require.Equal(t, app("a"), down.Key)
		require.Equal(t, down.Digest, at.Digest)
		require.Equal(t, down.Row.Digest(), at.Digest)
		require.True(t, down.Owned)
		require.False(t, at.Owned)
		require.Equal(t, hub.trace, at.Trace, "it travels beside the row")
		for _, then := range []time.Time{down.Seen, down.Said, down.Done, at.Written, at.At, spoke.wrote[0].Began, spoke.wrote[0].Done} {
			require.Zero(t, then.Sub(before), "no time passes in a bubble")
		}

		settle(10 * time.Second)
		r.spoke.set("a", resource.Status, `{}`)
		settle(0)
		require.Empty(t, hub.heard[0].Trace)
		require.Equal(t, "sending again=false, sent true", spoke.take())
		require.Equal(t, "heard kept=false, wrote 0 removed=false overtaken=false ", hub.take())
		r.hub.cluster.Delete(app("a"))
		settle(0)
		require.Contains(t, spoke.take(), "wrote 0 removed=true")
	})
}

func TestAWitnessIsToldOfWhatFailsAndOfWhatIsSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		_, spoke := r.witnessed()
		failing := &failingStore{Store: r.spoke.cluster}
		failing.fail.Store(true)
		r.spoke.store = failing
		r.start()
		r.hub.set("a", resource.Spec, `{"n":1}`)
		settle(0)
		failing.fail.Store(false)
		settle(10 * time.Second)
		require.Contains(t, spoke.take(), "heard kept=false, wrote 1 removed=false overtaken=false try again later, wrote 0")

		require.ErrorContains(t, r.spoke.stop(), "canceled")
		r.spoke.start()
		settle(10 * time.Second)
		require.Equal(t, "heard kept=true", spoke.take(), "the next process reads it from the copy")
	})
}
