package simulation

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/verify"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
)

// heal makes everything whole and running again.
func (w *world) heal() {
	for _, s := range w.spokes {
		s.fault(linktest.Healthy)
	}
	w.start()
}

// settle waits until both sides of every link agree and know it, and then for silence.
func (w *world) settle() {
	w.t.Helper()
	w.agree()
	w.silence()
}

// agree waits until both sides of every link agree and know it.
func (w *world) agree() {
	w.t.Helper()
	w.await(w.f.patience, "agreement", func() bool {
		for _, s := range w.spokes {
			if !s.agrees() {
				return false
			}
		}
		return true
	})
}

// agrees reports whether the two sides are in step, say so, and have the same in their
// stores, read afresh, and nothing is left to do for the controller.
func (s *spoke) agrees() bool {
	upper, lower := s.upper(), s.lower()
	return upper.Connected && upper.Engine.InStep && lower.Connected && lower.Engine.InStep &&
		s.control.done() && len(s.differences()) == 0
}

// differences compares what the two clusters have of the spoke.
func (s *spoke) differences() []verify.Difference {
	return verify.Compare(verify.Options{Mode: s.w.mode, Hub: hubIdentity, Agent: s.name}, s.read(s.hub()), s.read(s.here()))
}

// read reads a site, and makes of the originals what their copies are to be.
func (s *spoke) read(c site) []resource.Object {
	objects, err := verify.Read(s.w.t.Context(), c, backend.In(c.namespace))
	require.NoError(s.w.t, err)
	for i, o := range objects {
		o.Key.Namespace = ""
		if spec, err := resource.Decode(o.Parts[resource.Spec]); err == nil && c == s.owner() {
			o.Parts[resource.Spec] = s.mapped(spec)
		}
		objects[i] = o
	}
	return objects
}

// mapped says what a copy's spec is to be. It is the mapping, written down a second time.
func (s *spoke) mapped(spec any) string {
	m, ok := spec.(map[string]any)
	if !ok {
		return resource.Canonical(spec)
	}
	if s.w.mode == resource.Managed {
		m["destination"] = map[string]any{"server": "https://kubernetes.default.svc"}
	} else {
		m["destination"] = map[string]any{"name": s.name}
		m["project"] = s.name + "-default"
	}
	return resource.Canonical(m)
}

// silence demands that for a time nothing is said and nothing is written: soon in virtual time,
// and in the end where it depends on what else the machine has to do.
func (w *world) silence() {
	w.t.Helper()
	if !w.f.virtual {
		w.hush()
	} else {
		time.Sleep(w.f.quiet) // what is being said at the moment of agreement
		before := w.busy()
		time.Sleep(w.f.quiet)
		require.Equal(w.t, before, w.busy(), "somebody is not silent")
	}
	for _, s := range w.spokes {
		require.Empty(w.t, s.differences())
	}
}

// hush demands that in the end nothing is said and nothing is written.
func (w *world) hush() {
	w.t.Helper()
	before, since := w.busy(), time.Now()
	w.await(w.f.patience, "silence", func() bool {
		if now := w.busy(); fmt.Sprint(now) != fmt.Sprint(before) {
			before, since = now, time.Now()
		}
		return time.Since(since) >= w.f.quiet
	})
}

// busy returns how much was done so far, by side.
func (w *world) busy() map[string]int64 {
	n := map[string]int64{}
	for _, s := range w.spokes {
		n["hub of "+s.name], n[s.name] = s.up.all(), s.down.all()
	}
	return n
}

// approve has every deletion done that is held back, as an operator does who knows that
// it is right.
func (w *world) approve() {
	for _, s := range w.spokes {
		s.grant(s.upper().Engine.Theirs, &s.up, hubIdentity)
		s.grant(s.lower().Engine.Theirs, &s.down, s.name)
	}
}

// grant says in the log of one side that what the other holds back may be removed.
func (s *spoke) grant(held []engine.Absent, p *tap, by string) {
	if len(held) == 0 {
		return
	}
	m := engine.Message{Key: engine.ApprovalKey, Body: engine.Approval{Of: engine.HeldDigest(held)}}
	e, err := wire.Encode(m, wire.Envelope{ID: fmt.Sprint("approval-", time.Now().UnixNano()), Source: by, Time: time.Now()})
	require.NoError(s.w.t, err)
	require.NoError(s.w.t, p.send(s.w.t.Context(), e))
}

// explain says in what the world does not agree.
func (w *world) explain() string {
	var b strings.Builder
	for _, s := range w.spokes {
		fmt.Fprintf(&b, "%s\n", s.name)
		if w.stopping != nil {
			fmt.Fprintf(&b, "  principal %+v\n", s.upper())
		}
		if s.stopping != nil {
			fmt.Fprintf(&b, "  agent     %+v\n", s.lower())
		}
		for _, d := range s.differences() {
			fmt.Fprintf(&b, "  %s\n", d)
		}
	}
	return b.String()
}
