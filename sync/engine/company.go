package engine

import (
	"cmp"
	"strings"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// company knows whether the peer's process answers. Nothing is done or left undone because
// it does not: a principal only tells its users what they wait for.
type company struct {
	met    bool
	missed time.Time // of the first Tick without it; zero if there was none
	alone  bool      // it has not answered for longer than grace
	lapsed bool      // nor for longer than Config.Stale
}

// grace is for how long a peer that does not answer is taken to be there: links and
// processes that are begun anew are no news.
const grace = 15 * time.Second

// meet takes in whether the peer's process answers.
func (e *Engine) meet(now time.Time, there bool) []Action {
	news := there && !e.met
	e.met, e.missed = there, time.Time{}
	if news {
		e.alone, e.lapsed = false, false
		return e.announce(now)
	}
	return nil
}

// miss takes in that time has passed.
func (e *Engine) miss(now time.Time) []Action {
	if e.met {
		return nil
	}
	if e.missed.IsZero() {
		e.missed = now
	}
	away := now.Sub(e.missed)
	alone, lapsed := e.alone || away > grace, e.lapsed || e.cfg.Stale > 0 && away > e.cfg.Stale
	if alone == e.alone && lapsed == e.lapsed {
		return nil
	}
	e.alone, e.lapsed = alone, lapsed
	return e.announce(now)
}

// announce has objects say what they have to say of the peer's being away, or no longer.
func (e *Engine) announce(now time.Time) (out []Action) {
	if e.cfg.Side != resource.Principal {
		return nil
	}
	for _, k := range sorted(e.entries) {
		if en := e.entries[k]; en.local != nil && (e.pending(*en.local) != "" || en.local.Parts[resource.Pending] != "") {
			out = append(out, e.decide(now, k, en)...)
		}
	}
	return out
}

// notice gives an object what a principal has to tell of it.
func (e *Engine) notice(o *resource.Object, en *entry) {
	if e.cfg.Side != resource.Principal || !o.Key.Kind.Has(resource.Pending) {
		return
	}
	o.Parts[resource.Pending], o.Parts[resource.Held] = e.pending(*o), ""
	if o.Parts[resource.Fault] == observed { // that is no fault
		o.Parts[resource.Fault] = ""
		o.Parts[resource.Pending] = cmp.Or(o.Parts[resource.Pending], e.observing())
	}
	if en.held {
		o.Parts[resource.RefreshMark] = "" // nobody is there to fulfil it
		o.Parts[resource.Held] = "the agent no longer has it, and nobody is known to have deleted it: it stays until its removal is approved"
	}
}

// pending says what waits for an agent that is away, or that all is as it was when the agent
// was there. What an earlier process has said is believed for as long as this one does not
// know better: a restart is no news.
func (e *Engine) pending(o resource.Object) string {
	said, away := o.Parts[resource.Pending], "agent "+e.cfg.Peer+" is away: "
	switch {
	case e.met, o.Origin.UID == "" && !e.owns(o.Key, resource.Spec):
		return ""
	case !e.alone && !e.lapsed:
		return said
	case !e.alone:
	case e.awaits(o):
		return away + "the deletion waits until it is back and has carried it out"
	case o.Parts[resource.Operation] != "":
		return away + "the operation waits until it is back"
	case o.Parts[resource.Refresh] != "":
		return away + "the refresh waits until it is back"
	}
	since := "agent " + e.cfg.Peer + " has not been heard of since "
	switch {
	case strings.HasPrefix(said, since):
		return said
	case e.lapsed:
		return since + e.missed.UTC().Format(time.RFC3339) + ": this is how it stood then"
	}
	return ""
}

// awaits reports whether an object is deleted here, and waits until the peer has deleted its
// copy.
func (e *Engine) awaits(o resource.Object) bool {
	return o.Deleting && e.owns(o.Key, resource.Spec) && e.cfg.Rules.Confirmed(o.Key.Kind)
}
