package admin

import (
	"cmp"
	"slices"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/journal"
)

// A half is what one side of a link knows of an object; nil is that it could not be asked.
type half struct {
	mode  string // in which it runs, as it says
	state inquiry.State
	page  journal.Page
}

// shift returns a half whose times are put back by d.
func (h half) shift(d time.Duration) half {
	back := func(at *time.Time) {
		if !at.IsZero() {
			*at = at.Add(-d)
		}
	}
	h.page.Said, h.page.Heard = slices.Clone(h.page.Said), slices.Clone(h.page.Heard)
	for i := range h.page.Said {
		s := &h.page.Said[i]
		back(&s.Seen)
		back(&s.Said)
		back(&s.Sent)
		s.Reconciled = stampBack(s.Reconciled, d)
	}
	for i := range h.page.Heard {
		m := &h.page.Heard[i]
		back(&m.Heard)
		back(&m.Began)
		back(&m.Ended)
	}
	back(&h.state.Retry)
	return h
}

func stampBack(text string, d time.Duration) string {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return ""
	}
	return at.Add(-d).Format(time.RFC3339Nano)
}

// A pair is one change as its writer and its reader have it; either may have nothing of it.
type pair struct {
	said  *journal.Said
	heard *journal.Heard
	of    journal.Of
}

// pairs brings together what both halves remember of the writer's changes, the oldest first.
// What only one of them remembers happened before the other's process began, or is on its way.
func pairs(writer, reader *half) (out []pair) {
	var said []journal.Said
	var heard []journal.Heard
	if writer != nil {
		said = writer.page.Said
	}
	if reader != nil {
		heard = reader.page.Heard
	}
	end := len(heard)
	for i := len(said) - 1; i >= 0; i-- {
		p := pair{said: &said[i], of: said[i].Of}
		for j := end - 1; j >= 0; j-- {
			if heard[j].Digest == said[i].Digest {
				p.heard, end = &heard[j], j
				break
			}
		}
		out = append(out, p)
	}
	if len(said) == 0 {
		end = len(heard)
	}
	for j := end - 1; j >= 0; j-- { // older than all that the writer remembers
		if len(said) == 0 || heard[j].Heard.Before(said[0].Seen) {
			out = append(out, pair{heard: &heard[j], of: heard[j].Of})
		}
	}
	slices.Reverse(out)
	return out
}

// passages returns the way of each change that a side has said.
func passages(from string, writer, reader *half) (out []Passage) {
	all := pairs(writer, reader)
	if now := current(writer, reader); now != "" && (len(all) == 0 || all[len(all)-1].of.Digest != now) {
		all = append(all, pair{of: journal.Of{Digest: now, Phase: "live"}}) // from before both processes
	}
	for i, p := range all {
		later := slices.ContainsFunc(all[i+1:], func(q pair) bool { return q.heard != nil })
		out = append(out, passage(from, p, writer, reader, later, i == len(all)-1))
	}
	return out
}

// current returns the digest of the writer's row, as far as anybody knows.
func current(writer, reader *half) string {
	if writer != nil {
		return writer.state.Said
	}
	if reader != nil {
		return reader.state.Told
	}
	return ""
}

// passage returns the way of one change. later says that the reader has heard a later one, and
// last that there is none.
func passage(from string, p pair, writer, reader *half, later, last bool) Passage {
	out := Passage{Digest: p.of.Digest, Phase: p.of.Phase, From: from, Trace: p.of.Trace}
	out.Seen, out.Logged = Stage{State: StageUnknown}, Stage{State: StageUnknown}
	if s := p.said; s != nil {
		out.Seen = Stage{State: StageDone, At: s.Seen}
		out.Logged = Stage{State: StageWaits}
		switch {
		case s.Failed != "":
			out.Logged = Stage{State: StageFailed, Text: s.Failed}
		case !s.Sent.IsZero():
			out.Logged = Stage{State: StageDone, At: s.Sent}
		}
	} else if writer != nil && last && !writer.state.Lost {
		out.Logged.State = StageDone
	}
	out.Come, out.Done = came(p, reader, later, last)
	return out
}

// came returns how far a change is at its reader.
func came(p pair, reader *half, later, last bool) (come, done Stage) {
	h, told := p.heard, reader != nil && reader.state.Told == p.of.Digest
	switch {
	case reader == nil:
		return Stage{State: StageUnknown}, Stage{State: StageUnknown}
	case h == nil && last && told:
		come = Stage{State: StageDone}
	case h == nil && later:
		return Stage{State: StageSkipped}, Stage{State: StageSkipped}
	case h == nil:
		return Stage{State: StageWaits}, Stage{State: StageWaits}
	default:
		come = Stage{State: StageDone, At: h.Heard}
	}
	switch {
	case h != nil && h.End == journal.Done:
		done = Stage{State: StageDone, At: h.Ended}
	case last && (reader.state.Settled || forgotten(p, reader)):
		done = Stage{State: StageDone}
		if h != nil {
			done.At, done.Text = h.Heard, "there was nothing to write"
		}
	case h != nil && h.Why != "":
		done = Stage{State: StageFailed, At: h.Ended, Text: h.Why}
	case later:
		done = Stage{State: StageSkipped}
	default:
		done = Stage{State: StageWaits}
	}
	return come, done
}

// forgotten reports whether a reader has heard of a deletion and has nothing of its object any
// more: it is done with it.
func forgotten(p pair, reader *half) bool {
	return p.heard != nil && p.of.Digest == "" && !reader.state.Known
}

// reconcile says of the hub's changes when Argo CD on the spoke has looked at them after they were
// applied, and when the hub knew. Argo CD says nothing of when it has looked at what is being
// deleted.
func reconcile(changes []Passage, hub, spoke *half) {
	for i := range changes {
		c := &changes[i]
		if c.Phase != engine.Live.String() {
			continue
		}
		c.Reconciled, c.Back = &Stage{State: StageUnknown}, &Stage{State: StageUnknown}
		if c.Done.State != StageDone {
			c.Reconciled.State, c.Back.State = c.Done.State, c.Done.State
			continue
		}
		if spoke == nil || c.Done.At.IsZero() {
			continue
		}
		looked(c, hub, spoke)
	}
}

// looked says of a change that is applied when Argo CD has looked at it, as far as the spoke
// remembers what it has said: the first of what it remembers is the first that there was only if
// nothing can have been forgotten before it.
func looked(c *Passage, hub, spoke *half) {
	applied := c.Done.At.Truncate(time.Second) // Argo CD says it in whole seconds
	said := spoke.page.Said
	i := slices.IndexFunc(said, func(s journal.Said) bool {
		at, err := time.Parse(time.RFC3339, s.Reconciled)
		return err == nil && !at.Before(applied)
	})
	switch {
	case i < 0:
		c.Reconciled.State, c.Back.State = StageWaits, StageWaits
		return
	case i == 0 && len(said) == journal.Kept && said[0].Seen.After(c.Done.At):
		return
	}
	at, _ := time.Parse(time.RFC3339, said[i].Reconciled)
	c.Reconciled, c.Back.State = &Stage{State: StageDone, At: latest(at, c.Done.At)}, StageWaits
	for _, s := range said[i:] { // one that was overtaken never came to the hub's object
		for _, h := range hub.page.Heard {
			if h.Digest == s.Digest && h.End == journal.Done {
				c.Back = &Stage{State: StageDone, At: h.Ended}
			}
		}
		if c.Back.State == StageDone {
			return
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// count says of each stage how long after the first it was. Where two clocks leave open which was
// earlier it says so, and no time is less than none.
func count(changes []Passage) {
	for i := range changes {
		c := &changes[i]
		var first time.Time
		for _, s := range []*Stage{&c.Seen, &c.Logged, &c.Come, &c.Done, c.Reconciled, c.Back} {
			switch {
			case s == nil || s.At.IsZero():
			case first.IsZero():
				first = s.At
			case s.At.Before(first):
				s.Text = cmp.Or(s.Text, "earlier than the first by the two clocks, which cannot be compared more exactly")
			default:
				s.After = s.At.Sub(first).Seconds()
			}
		}
	}
}
