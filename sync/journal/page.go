package journal

import (
	"slices"
	"strings"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A Page is what is remembered of one object on one side, as it is told.
type Page struct {
	Said  []Said  `json:"said"`  // our rows, the last at the end
	Heard []Heard `json:"heard"` // the peer's rows, likewise
}

// An Of names a row, and what it says in brief.
type Of struct {
	Digest     string `json:"digest"`               // its first characters; "" is that of a tombstone
	Phase      string `json:"phase"`                // live, going, gone, excluded, or deleted of a tombstone
	Reconciled string `json:"reconciled,omitempty"` // when Argo CD had last looked at the object, as the status in it says
	Trace      string `json:"trace,omitempty"`      // the id of the trace that it belongs to
}

// Said is a row of ours.
type Said struct {
	Of
	Seen   time.Time `json:"seen"`            // the store showed what it says
	Said   time.Time `json:"said"`            // it was decided
	Sent   time.Time `json:"sent,omitzero"`   // it was in the log
	Failed string    `json:"failed,omitzero"` // why it is not
}

// Heard is a row of the peer's.
type Heard struct {
	Of
	Written time.Time `json:"written"`        // by the peer's clock
	Heard   time.Time `json:"heard"`          // it came
	Began   time.Time `json:"began,omitzero"` // the last write that it led to
	Ended   time.Time `json:"ended,omitzero"`
	Tries   int       `json:"tries,omitempty"` // how often one was made
	End     End       `json:"end,omitempty"`
	Why     string    `json:"why,omitempty"`  // it was not done
	Kept    bool      `json:"kept,omitempty"` // it was read from what the link keeps, and may have been heard by an earlier process
}

// An End says how a write has ended.
type End string

// The ends.
const (
	Done      End = "done"
	Failed    End = "failed"
	Refused   End = "refused"
	Withheld  End = "withheld"
	Overtaken End = "overtaken" // another had written the object in between
)

// Page returns what is remembered of an object; a Page with nothing in it if that is nothing.
func (b Book) Page(k resource.Key) (out Page) {
	b.j.mu.Lock()
	defer b.j.mu.Unlock()
	el := b.j.pages[place{b.peer, k}]
	if el == nil {
		return out
	}
	p := el.Value.(*page)
	for _, s := range p.ours {
		out.Said = append(out.Said, Said{Of: s.mark.of(s.trace), Seen: moment(s.seen), Said: moment(s.said), Sent: moment(s.sent), Failed: plain(s.failed)})
	}
	for _, h := range p.theirs {
		out.Heard = append(out.Heard, Heard{
			Of: h.mark.of(h.trace), Written: moment(h.written), Heard: moment(h.heard), Began: moment(h.began), Ended: moment(h.ended),
			Tries: int(h.tries), End: h.end, Why: plain(h.why), Kept: h.kept,
		})
	}
	return out
}

// Named returns the keys of a kind that have a name, in whatever namespace, and of which something
// is remembered, sorted.
func (b Book) Named(kind resource.Kind, name string) (keys []resource.Key) {
	b.j.mu.Lock()
	defer b.j.mu.Unlock()
	for at := range b.j.pages {
		if at.peer == b.peer && at.key.Kind == kind && at.key.Name == name {
			keys = append(keys, at.key)
		}
	}
	slices.SortFunc(keys, resource.Key.Compare)
	return keys
}

func (m mark) of(trace string) Of {
	o := Of{Digest: strings.TrimRight(string(m.digest[:]), "\x00"), Phase: m.phase.String(), Reconciled: m.reconciled, Trace: trace}
	if m.dead {
		o.Phase = "deleted"
	}
	return o
}

func plain(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
