package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// drawn draws a head and a storm.
func drawn(seed uint64) (m model, head, storm []act, troubles []trouble) {
	m = newModel(resource.Managed, resource.Autonomous)
	d := newDraft(m, seed)
	head = d.head()
	storm, troubles = d.storm(2 * time.Minute)
	return m, head, storm, troubles
}

func TestASeedSaysWhatHappens(t *testing.T) {
	model, head, storm, troubles := drawn(7)
	again, head2, storm2, troubles2 := drawn(7)
	require.Equal(t, head, head2)
	require.Equal(t, storm, storm2)
	require.Equal(t, troubles, troubles2)
	require.Equal(t, model, again)
	_, other, _, others := drawn(8)
	require.NotEqual(t, head, other)
	require.NotEqual(t, troubles, others)
}

// TestEverythingHappens: each verb and each trouble is drawn, and what is kept is kept.
func TestEverythingHappens(t *testing.T) {
	verbs, whats := map[verb]int{}, map[place]map[string]int{}
	for seed := range uint64(5) {
		m, head, storm, troubles := drawn(seed)
		for _, a := range append(head, storm...) {
			verbs[a.verb]++
		}
		for _, tr := range troubles {
			require.Less(t, tr.at, tr.until)
			require.LessOrEqual(t, tr.until, 2*time.Minute)
			if whats[tr.place] == nil {
				whats[tr.place] = map[string]int{}
			}
			whats[tr.place][tr.what]++
		}
		for _, h := range m {
			kept := h.keys(func(_ key, o *object) bool { return o.kept })
			require.Len(t, kept, 8+2*(len(kinds(h.mode))-1))
			require.NotEmpty(t, h.gone)
		}
	}
	for _, o := range odds {
		require.NotZero(t, verbs[o.verb], o.verb)
	}
	for _, s := range spells() {
		for _, what := range s.what {
			require.NotZero(t, whats[s.place][what], "%s: %s", s.place, what)
		}
	}
}

// TestAStormDeletesNoMoreThanTheFuseLetsGo counts what may be absent for reasons that nobody
// knows.
func TestAStormDeletesNoMoreThanTheFuseLetsGo(t *testing.T) {
	for seed := range uint64(20) {
		m := newModel(resource.Managed, resource.Autonomous)
		d := newDraft(m, seed)
		for range 3 {
			d.head()
			cascading := map[int]map[key]bool{0: {}, 1: {}}
			for agent, h := range m {
				for k, o := range h.objects {
					cascading[agent][k] = o.cascades()
				}
			}
			storm, _ := d.storm(time.Minute)
			unseen := map[int]int{}
			for _, a := range storm {
				switch {
				case a.verb == create:
					cascading[a.agent][a.key] = a.finalizer != ""
				case a.verb == renew, a.verb == remove && !(cascading[a.agent][a.key] && m[a.agent].mode == resource.Managed):
					unseen[a.agent]++
				}
			}
			for agent, n := range unseen {
				require.LessOrEqual(t, n, letsGo, "seed %d, agent %d", seed, agent)
			}
		}
	}
}
