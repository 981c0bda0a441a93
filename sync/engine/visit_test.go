package engine_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// visits count how often schedules have come to each row of the tables.
type visits struct {
	rows  map[engine.Situation]verdict
	mu    sync.Mutex
	times map[engine.Situation]int
}

func newVisits() *visits {
	v := &visits{rows: map[engine.Situation]verdict{}, times: map[engine.Situation]int{}}
	for _, table := range tables() {
		for _, row := range table {
			v.rows[row.Situation] = row
		}
	}
	return v
}

// visit takes note of where an Engine is after an event, and holds it to the tables: they
// have all situations that there are, and nothing is removed, released or taken over where
// they do not say so.
func (w *world) visit(n *node, ev engine.Event, acts []engine.Action) {
	if w.visits == nil {
		return
	}
	if k, ok := about(ev); ok {
		w.note(n, k, "")
	}
	if _, ok := ev.(engine.Tick); ok {
		for k := range n.store {
			w.note(n, k, "")
		}
	}
	for _, a := range acts {
		if does := n.eng.Does(a); does != "" {
			w.note(n, target(a), does)
		}
	}
}

func (w *world) note(n *node, k resource.Key, does string) {
	at := n.eng.Situation(k)
	row, known := w.visits.rows[at]
	switch {
	case at == (engine.Situation{}):
		return
	case !known:
		w.fail("no table has: %v", at)
	case slices.Contains([]string{"removed", "released", "taken over"}, does) && !slices.Contains(row.does, does):
		w.fail("%v was %s, but the table says %q of: %v", k, does, row.does, at)
	}
	w.visits.mu.Lock()
	defer w.visits.mu.Unlock()
	w.visits.times[at]++
}

// about returns the key that an event is about.
func about(ev engine.Event) (resource.Key, bool) {
	switch ev := ev.(type) {
	case engine.Changed:
		return ev.Object.Key, true
	case engine.Vanished:
		return ev.Key, true
	case engine.Wrote:
		return ev.Key, true
	case engine.Received:
		return ev.Message.Key, !engine.Reserved(ev.Message.Key)
	}
	return resource.Key{}, false
}

// complete demands that the default schedules have come to every row.
func (v *visits) complete(t *testing.T) {
	for at := range v.rows {
		if v.times[at] == 0 {
			t.Errorf("no schedule has come to: %v", at)
		}
	}
}
