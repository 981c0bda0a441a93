package principal

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// One Application, and what each agent is shown of it after what has happened.
func TestCustody(t *testing.T) {
	type step struct {
		act   func(*custody)
		m     matter
		shown map[string]verdict
		waits string
	}
	at := func(to string) matter { return matter{uid: "u", to: to, ran: true} }
	says := func(agent string, phase engine.Phase) func(*custody) {
		return func(c *custody) { c.said(agent, "u", engine.Record{UID: "u", Phase: phase}, true) }
	}
	keeps := func(agent string) func(*custody) {
		row := engine.Record{UID: "u", Phase: engine.Gone}
		row.Parts[resource.Fault] = "why"
		return func(c *custody) { c.said(agent, "u", row, true) }
	}
	silent := func(agent string) func(*custody) {
		return func(c *custody) { c.said(agent, "u", engine.Record{}, false) }
	}
	enrolled := func(agents ...string) func(*custody) { return func(c *custody) { c.enrol(agents, nil) } }
	deleted, excluded := at("b"), at("b")
	deleted.deleting, excluded.still = true, true
	const keepsIt = "its destination names no managed agent: agent a keeps it as it is until it names one, or it is deleted"
	const giveUp, unknownA = "waiting for agent a to give it up", "it is not known yet whether agent a has it"
	for name, steps := range map[string][]step{
		"moved, and moved on": {
			{nil, at("a"), map[string]verdict{"a": there}, ""},
			{nil, at("b"), map[string]verdict{"a": leaving}, giveUp},
			{nil, at("c"), map[string]verdict{"a": leaving}, giveUp},
			{says("b", engine.Gone), at("c"), map[string]verdict{"a": leaving}, giveUp},
			{says("a", engine.Gone), at("c"), map[string]verdict{"c": there}, ""},
		},
		"moved back before it has gone": {
			{nil, at("a"), map[string]verdict{"a": there}, ""},
			{nil, at("b"), map[string]verdict{"a": leaving}, giveUp},
			{nil, at("a"), map[string]verdict{"a": leaving}, giveUp},
			{says("a", engine.Gone), at("a"), map[string]verdict{"a": there}, ""},
		},
		"a late word about the first time is none about the second": {
			{nil, at("a"), map[string]verdict{"a": there}, ""},
			{nil, at("b"), map[string]verdict{"a": leaving}, giveUp},
			{says("a", engine.Gone), at("a"), map[string]verdict{"a": there}, ""},
			{nil, at("b"), map[string]verdict{"a": there}, giveUp},
			{says("a", engine.Gone), at("b"), map[string]verdict{"a": there}, giveUp},
			{silent("a"), at("b"), map[string]verdict{"a": leaving}, giveUp},
			{says("a", engine.Gone), at("b"), map[string]verdict{"b": there}, ""},
		},
		"deleted during a move": {
			{nil, at("a"), map[string]verdict{"a": there}, ""},
			{nil, at("b"), map[string]verdict{"a": leaving}, giveUp},
			{nil, deleted, map[string]verdict{"a": dying}, giveUp},
			{says("a", engine.Gone), deleted, map[string]verdict{"a": dying}, giveUp},
		},
		"deleted where nobody has it": {
			{nil, deleted, map[string]verdict{"b": dying}, ""},
			{nil, matter{uid: "v", ran: true, deleting: true}, map[string]verdict{}, "no agent has it: it goes once a controller here has seen to that, or its finalizers are taken off"},
		},
		"excluded during a move": {
			{nil, at("a"), map[string]verdict{"a": there}, ""},
			{nil, at("b"), map[string]verdict{"a": leaving}, giveUp},
			{nil, excluded, map[string]verdict{"a": parked}, ""},
			{nil, at("b"), map[string]verdict{"a": leaving}, giveUp},
		},
		"the old agent is registered no more": {
			{nil, at("a"), map[string]verdict{"a": there}, ""},
			{nil, at("b"), map[string]verdict{"a": leaving}, giveUp},
			{enrolled("b", "c"), at("b"), map[string]verdict{"a": parked}, "agent a may have it still, and is " + unregistered},
			{enrolled("a", "b", "c"), at("b"), map[string]verdict{"a": leaving}, giveUp},
			{enrolled("b", "c"), at("b"), map[string]verdict{"a": parked}, "agent a may have it still, and is " + unregistered},
			{func(c *custody) { require.Equal(t, 1, c.forgotten("a")) }, at("b"), map[string]verdict{"b": there}, ""},
		},
		"the old agent was removed before, and is not forgotten yet": {
			{func(c *custody) { c.remain([]string{"d"}) }, at("b"), map[string]verdict{}, "it is not known yet whether agent d has it"},
			{nil, matter{uid: "v", to: "b"}, map[string]verdict{"b": there}, ""}, // it has never been anywhere
			{func(c *custody) { c.forgotten("d") }, at("b"), map[string]verdict{"b": there}, ""},
		},
		"the old agent changes its mode": {
			{nil, at("a"), map[string]verdict{"a": there}, ""},
			{func(c *custody) { c.enrol([]string{"b", "c"}, []string{"a"}) }, at("b"), map[string]verdict{"a": parked}, "agent a may have it still, and is " + autonomous},
			{nil, at("a"), map[string]verdict{"a": parked}, "agent a may have it still, and is " + autonomous},
			{func(c *custody) { c.enrol(three, nil); c.replayed("a") }, at("a"), map[string]verdict{"a": there}, ""},
		},
		"aimed at none that there is": {
			{nil, at("a"), map[string]verdict{"a": there}, ""},
			{nil, at("x"), map[string]verdict{"a": parked}, keepsIt},
			{nil, at(""), map[string]verdict{"a": parked}, keepsIt},
			{nil, at("a"), map[string]verdict{"a": there}, ""},
			{nil, at(""), map[string]verdict{"a": parked}, keepsIt},
			{nil, matter{uid: "u", ran: true, deleting: true}, map[string]verdict{"a": dying}, giveUp},
		},
		"aimed at none that there is while it leaves": {
			{nil, at("a"), map[string]verdict{"a": there}, ""},
			{nil, at("b"), map[string]verdict{"a": leaving}, giveUp},
			{nil, at("x"), map[string]verdict{"a": leaving}, giveUp},
			{says("a", engine.Gone), at("x"), map[string]verdict{}, "no managed agent is called x"},
			{enrolled("a", "b", "c", "x"), at("x"), map[string]verdict{"x": there}, ""},
		},
		"aimed at nobody": {
			{nil, at(""), map[string]verdict{}, ""},
			{nil, at("x"), map[string]verdict{}, ""}, // somebody's, as it has a status, and no agent's
			{nil, matter{uid: "u", to: "x"}, map[string]verdict{}, "no managed agent is called x"},
		},
		"an agent comes with a copy that nobody knew of": {
			{nil, at("b"), map[string]verdict{"b": there}, ""},
			{says("a", engine.Live), at("b"), map[string]verdict{"a": leaving, "b": parked}, giveUp},
			{says("a", engine.Gone), at("b"), map[string]verdict{"b": there}, ""},
		},
		"two have it, and are to give it up": {
			{nil, at("b"), map[string]verdict{"b": there}, ""},
			{says("a", engine.Live), at("c"), map[string]verdict{"a": leaving, "b": parked}, "waiting for agent a, b to give it up"},
			{keeps("a"), at("c"), map[string]verdict{"a": parked, "b": leaving}, "agent a keeps its own copy: why; waiting for agent b to give it up"},
			{says("b", engine.Gone), at("c"), map[string]verdict{"a": leaving}, "agent a keeps its own copy: why"},
			{says("a", engine.Gone), at("c"), map[string]verdict{"c": there}, ""},
		},
		"an agent whose log is not read yet": {
			{func(c *custody) { c.keepers["a"].read = false }, at("b"), map[string]verdict{}, unknownA},
			{nil, matter{uid: "u", to: "b"}, map[string]verdict{}, unknownA},
			{func(c *custody) { c.open("a", true, map[string]engine.Phase{"u": engine.Live}) }, at("b"), map[string]verdict{"a": there}, giveUp},
			{func(c *custody) { c.replayed("a") }, at("b"), map[string]verdict{"a": leaving}, giveUp},
		},
		"an agent that was leaving when the principal ended": {
			{func(c *custody) { c.open("a", true, map[string]engine.Phase{"u": engine.Going}) }, at("b"), map[string]verdict{"a": leaving}, giveUp},
			{says("a", engine.Gone), at("b"), map[string]verdict{"b": there}, ""},
		},
		"the log says that it was excluded, and not why": {
			{func(c *custody) {
				delete(c.trusts, "u")
				c.keepers["a"], c.keepers["b"] = newKeeper(), newKeeper()
				c.enrol(three, nil)
				c.open("a", true, map[string]engine.Phase{"u": engine.Excluded})
				c.open("b", true, map[string]engine.Phase{"u": engine.Excluded})
			}, at("b"), map[string]verdict{"a": parked, "b": parked}, unknownA},
			{func(c *custody) { c.meet("a", false) }, at("b"), map[string]verdict{"a": parked, "b": parked}, unknownA},
			{func(c *custody) { c.meet("a", true) }, at("b"), map[string]verdict{"b": there}, ""},
		},
		"an agent claims what another has": {
			{func(c *custody) { c.keepers["c"].intact = true }, at("b"), map[string]verdict{"b": there}, ""},
			{says("c", engine.Live), at("b"), map[string]verdict{"b": there}, ""},
			{func(c *custody) { c.keepers["c"].intact = false }, at("b"), map[string]verdict{"b": there}, ""},
			{says("c", engine.Live), at("b"), map[string]verdict{"b": parked, "c": leaving}, "waiting for agent c to give it up"},
		},
		"an agent claims what it has given up": {
			{nil, at("a"), map[string]verdict{"a": there}, ""},
			{nil, at("b"), map[string]verdict{"a": leaving}, giveUp},
			{says("a", engine.Gone), at("b"), map[string]verdict{"b": there}, ""},
			{says("a", engine.Live), at("b"), map[string]verdict{"b": there}, ""},
			{keeps("a"), at("b"), map[string]verdict{"b": there}, ""},
			{nil, at("a"), map[string]verdict{"b": leaving}, "waiting for agent b to give it up"},
			{says("b", engine.Gone), at("a"), map[string]verdict{"a": there}, ""},
			{says("a", engine.Live), at("b"), map[string]verdict{"a": leaving}, giveUp},
		},
		"an agent keeps its own copy": {
			{nil, at("a"), map[string]verdict{"a": there}, ""},
			{nil, at("b"), map[string]verdict{"a": leaving}, giveUp},
			{keeps("a"), at("b"), map[string]verdict{"a": leaving}, "agent a keeps its own copy: why"},
			{says("a", engine.Gone), at("b"), map[string]verdict{"b": there}, ""},
		},
		"an agent of which nothing was ever heard": {
			{func(c *custody) { c.keepers["a"].met = false }, at("b"), map[string]verdict{}, unknownA},
			{nil, matter{uid: "v", to: "b"}, map[string]verdict{"b": there}, ""}, // it has never been anywhere
			{says("c", engine.Live), at("b"), map[string]verdict{"c": leaving}, "waiting for agent c to give it up"},
			{says("c", engine.Gone), at("b"), map[string]verdict{"b": there}, ""},
		},
		"and neither of the one that is to have it": {
			{func(c *custody) {
				for _, agent := range []string{"a", "b"} {
					c.keepers[agent].met, c.keepers[agent].whole = false, false
				}
			}, at("b"), map[string]verdict{"b": parked}, unknownA},
			{func(c *custody) { require.False(t, c.meet("a", false), "its log was lost") }, at("b"), map[string]verdict{"b": parked}, unknownA},
			{func(c *custody) { require.True(t, c.meet("a", true)) }, at("b"), map[string]verdict{"b": there}, ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCustody()
			for _, agent := range []string{"a", "b", "c"} {
				c.enrol([]string{"a", "b", "c"}, nil)
				c.open(agent, false, nil)
				c.replayed(agent)
				c.meet(agent, true)
			}
			for i, s := range steps {
				if s.act != nil {
					s.act(&c)
				}
				shown, waits := c.settle(s.m)
				require.Equal(t, s.shown, shown, "step %d", i)
				require.Equal(t, s.waits, waits, "step %d", i)
			}
		})
	}
}

// A depot is an agent and the log either way, as far as one Application goes. A log has the
// last word; it is heard at any time, any number of times.
type depot struct {
	down, told engine.Phase // of the row; none if there is no row
	has, dies  bool         // a copy; and it is being deleted
	up, copied engine.Phase // of the row; none if there is no row
}

const none = engine.Phase(99)

// act has the agent do one thing that its last row asks for, or say how it stands.
func (d *depot) act() {
	switch {
	case d.dies:
		d.has, d.dies = false, false
	case d.told == engine.Live && !d.has:
		d.has = true
	case d.told == engine.Going && d.has:
		d.dies = true
	case d.told == none && d.has:
		panic("a copy is forgotten")
	}
	switch {
	case d.has:
		d.up = engine.Live
	case d.told == engine.Going:
		d.up = engine.Gone
	default:
		d.up = none
	}
}

// A model is a hub with one Application and its agents.
type model struct {
	custody
	m      matter
	depots map[string]*depot
}

var three = []string{"a", "b", "c"}

// settle writes the logs towards the agents.
func (w *model) settle() {
	shown, _ := w.custody.settle(w.m)
	for agent, d := range w.depots {
		if !w.keepers[agent].heard {
			continue // the session is not open
		}
		d.down = map[verdict]engine.Phase{hidden: none, there: engine.Live, leaving: engine.Going, dying: engine.Going, parked: engine.Excluded}[shown[agent]]
	}
}

// restart begins a new process of the principal.
func (w *model) restart() {
	w.custody = newCustody()
	w.enrol(three, nil)
}

// open begins a session, of which the log is all that is known.
func (w *model) open(agent string) {
	rows := map[string]engine.Phase{}
	if d := w.depots[agent]; d.down != none {
		rows[w.m.uid] = d.down
	}
	w.custody.open(agent, true, rows)
}

// hear takes in the kept copy of an agent's log.
func (w *model) hear(agent string) {
	d := w.depots[agent]
	w.said(agent, w.m.uid, engine.Record{UID: w.m.uid, Phase: d.copied}, d.copied != none)
	w.meet(agent, d.told == d.down && d.copied == d.up) // one that answers has heard
}

func TestCustodyInAnyOrder(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := &model{m: matter{uid: "u", to: "a", ran: true}, depots: map[string]*depot{}}
		for _, agent := range three {
			w.depots[agent] = &depot{down: none, told: none, up: none, copied: none}
		}
		w.restart()
		step := func(c int, agent string) {
			d := w.depots[agent]
			k := w.keepers[agent]
			switch {
			case c < 2:
				w.m.to = agent
			case c < 5:
				d.told = d.down
			case c < 9:
				d.act()
			case c < 12:
				d.copied = d.up
				if k.heard {
					w.hear(agent)
				}
			case c < 15 && !k.read:
				w.open(agent)
			case c < 18 && k.read && !k.heard:
				w.hear(agent)
				w.replayed(agent)
			case c == 18 && r.IntN(4) == 0:
				w.restart()
			}
			w.settle()
			var at []string
			for _, agent := range three {
				if w.depots[agent].has {
					at = append(at, agent)
				}
			}
			require.LessOrEqual(t, len(at), 1, "seed %d: it is at %v", seed, at)
		}
		for range 300 {
			step(r.IntN(19), three[r.IntN(3)])
		}
		for i := range 500 { // nobody moves it any more, and everybody is heard
			step(2+i%16, three[r.IntN(3)])
		}
		for _, agent := range three {
			require.Equal(t, agent == w.m.to, w.depots[agent].has, fmt.Sprintf("seed %d: %s, to be at %s", seed, agent, w.m.to))
		}
	}
}
