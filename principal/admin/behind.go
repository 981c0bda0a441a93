package admin

import (
	"fmt"
	"strings"
	"time"

	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
)

// A fact is all that is known of one object when it is asked who is behind.
type fact struct {
	agent   principal.AgentStatus
	hub     half
	spoke   *half
	hubOwns bool
	letters []Letter
	changes []Passage
}

// behind returns what keeps changes of an object from going on, the likely cause of others
// first.
func behind(f fact) []Reason {
	out := []Reason{}
	for _, r := range linkRules {
		if text := r.text(f); text != "" {
			out = append(out, Reason{Where: "link", What: r.what, Text: text, Since: since(f, r.what)})
		}
	}
	sides := []struct {
		where string
		h     *half
	}{{HubSide, &f.hub}, {SpokeSide, f.spoke}}
	for _, s := range sides {
		if s.h == nil {
			continue
		}
		for _, r := range sideRules {
			if text := r.text(s.where, f, s.h.state); text != "" {
				out = append(out, Reason{Where: s.where, What: r.what, Text: text, Retry: retryOf(r.what, s.h.state)})
			}
		}
	}
	for _, l := range f.letters {
		out = append(out, Reason{
			Where: l.Side, What: "dead-letter", Since: l.First,
			Text: fmt.Sprintf("dead letter %s: %s: %s; argocd-agentctl deadletter retry %s", l.ID, l.Cause, l.Reason, l.ID),
		})
	}
	if len(out) == 0 {
		out = append(out, slow(f)...)
	}
	return out
}

func since(f fact, what string) time.Time {
	if what == "away" {
		return f.agent.Session.Since
	}
	return time.Time{}
}

func retryOf(what string, st inquiry.State) time.Time {
	if what == "failing" {
		return st.Retry
	}
	return time.Time{}
}

// linkRules say what is wrong with the way between both sides.
var linkRules = []struct {
	what string
	text func(fact) string
}{
	{"session", func(f fact) string {
		if f.agent.State == principal.Serving {
			return ""
		}
		return strings.TrimSuffix(fmt.Sprintf("the principal does not serve the agent by now: it is %s: %s", f.agent.State, errText(f.agent.Err)), ": ")
	}},
	{"refused", func(f fact) string { return errText(f.agent.Session.Refusal) }},
	{"away", func(f fact) string {
		switch s := f.agent.Session; {
		case s.Connected || f.agent.State != principal.Serving:
			return ""
		case s.Since.IsZero():
			return "the agent is not there, and was not since the principal started"
		}
		return "the agent is away: what is in the log waits for it"
	}},
	{"mode", func(f fact) string {
		if f.spoke == nil {
			return ""
		}
		return otherMode(f.agent.Mode, f.spoke.mode)
	}},
	{"store", func(f fact) string {
		var all []string
		for _, t := range f.agent.Troubles {
			all = append(all, fmt.Sprintf("%s, since %s: %v", t.What, t.Since.UTC().Format(time.RFC3339), t.Err))
		}
		return strings.Join(all, "; ")
	}},
	{"error", func(f fact) string {
		if f.agent.Session.Refusal != nil {
			return ""
		}
		return errText(f.agent.Session.Err)
	}},
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// sideRules say what keeps one side from making its object what it should be, or from saying
// what it has.
var sideRules = []struct {
	what string
	text func(where string, f fact, st inquiry.State) string
}{
	{"excluded", when("it is excluded there: by the label argocd-agent.argoproj-labs.io/ignore-sync, the selector, or its namespace", func(st inquiry.State) bool { return st.Excluded })},
	{"unreadable", quote("the other side's last row cannot be read: %s", func(st inquiry.State) string { return st.Unreadable })},
	{"unsent", quote("its row is never taken by the log: %s", func(st inquiry.State) string { return st.Unfit })},
	{"log", when("its row is not in the log for certain, and is put there again", func(st inquiry.State) bool { return st.Lost && st.Unfit == "" })},
	{"observes", func(where string, f fact, st inquiry.State) string {
		if !st.Withheld {
			return ""
		}
		return "the agent only observes, and withholds the change: argocd-agentctl plan " + f.agent.Name
	}},
	{"policy", quote("%s", func(st inquiry.State) string { return st.Taken })},
	{"refused-write", quote("the write is refused, and not tried again until the other side says something else: %s", func(st inquiry.State) string { return st.Refused })},
	{"failing", func(_ string, _ fact, st inquiry.State) string {
		if st.Tries == 0 || st.Settled || st.Refused != "" {
			return ""
		}
		return fmt.Sprintf("the write has failed %d times, and is tried again: %s", st.Tries, st.Failure)
	}},
	{"held", func(_ string, f fact, st inquiry.State) string {
		if !st.Held {
			return ""
		}
		return "its original is missing, and its deletion is held until it is approved: argocd-agentctl agent approve-deletions " + f.agent.Name
	}},
	{"order", func(_ string, _ fact, st inquiry.State) string {
		if len(st.Awaits) == 0 {
			return ""
		}
		return "it waits, because of the order of kinds, for " + strings.Join(st.Awaits, ", ")
	}},
	{"deletion", func(where string, f fact, st inquiry.State) string {
		if !st.Deleting || f.hubOwns != (where == HubSide) {
			return ""
		}
		if where == SpokeSide {
			return "it is being deleted, and has not vanished yet: its finalizers are Argo CD's there"
		}
		return "it is being deleted, and stays until the other side has deleted its copy and confirmed that"
	}},
	{"deleting", func(where string, f fact, st inquiry.State) string {
		if !st.Deleting || f.hubOwns == (where == HubSide) {
			return ""
		}
		if where == HubSide {
			return "the copy is being deleted, and has not vanished yet: its metadata.finalizers say what for"
		}
		return "the copy is being deleted, and has not vanished yet: its finalizers are Argo CD's there"
	}},
	{"operation", when("an operation is asked for, and waits until the one that runs has ended", func(st inquiry.State) bool { return st.Asked && st.Operation })},
	{"writing", when("it is being written by now", func(st inquiry.State) bool { return st.Writing })},
	{"fault", func(where string, f fact, st inquiry.State) string {
		if f.spoke != nil { // it says so itself
			return ""
		}
		return prefixed("the agent said: ", st.Fault)
	}},
	{"pending", quote("it says: %s", func(st inquiry.State) string { return st.Pending })},
}

func when(text string, so func(inquiry.State) bool) func(string, fact, inquiry.State) string {
	return func(_ string, _ fact, st inquiry.State) string {
		if so(st) {
			return text
		}
		return ""
	}
}

func quote(format string, of func(inquiry.State) string) func(string, fact, inquiry.State) string {
	return func(_ string, _ fact, st inquiry.State) string {
		if text := of(st); text != "" {
			return fmt.Sprintf(format, text)
		}
		return ""
	}
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// slow says where the last change of each side is, if nothing is wrong.
func slow(f fact) (out []Reason) {
	last := map[string]Passage{}
	for _, c := range f.changes {
		last[c.From] = c
	}
	for _, from := range []string{HubSide, SpokeSide} {
		c, ok := last[from]
		to := map[string]string{HubSide: SpokeSide, SpokeSide: HubSide}[from]
		switch {
		case !ok:
		case c.Logged.State == StageWaits:
			out = append(out, Reason{Where: from, What: "log", Text: "its last change is not in the log yet", Since: c.Seen.At})
		case c.Come.State == StageWaits:
			out = append(out, Reason{Where: "link", What: "underway", Text: "its last change has not arrived at the " + to, Since: c.Logged.At})
		case c.Done.State == StageWaits:
			out = append(out, Reason{Where: to, What: "unsettled", Text: "its last change has arrived, and is not written yet", Since: c.Come.At})
		case c.Reconciled != nil && c.Reconciled.State == StageWaits:
			out = append(out, Reason{Where: SpokeSide, What: "argocd", Text: unlooked(f), Since: c.Done.At})
		case c.Back != nil && c.Back.State == StageWaits:
			out = append(out, Reason{Where: "link", What: "underway", Text: "Argo CD has looked at it, and the hub does not show that yet", Since: c.Reconciled.At})
		}
	}
	return out
}

// unlooked says that Argo CD has done nothing about a change, and why, if its status says so.
func unlooked(f fact) string {
	st := f.hub.state
	if f.spoke != nil && f.spoke.state.Complaint != "" {
		st = f.spoke.state
	}
	return "Argo CD on the spoke has not looked at it since it was written" + prefixed(", and says: ", st.Complaint)
}
