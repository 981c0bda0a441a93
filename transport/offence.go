package transport

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// RulesBroken is the Trouble of an agent that does what no agent of this program does: one
// that was taken over, or a program of somebody else with its certificate.
const RulesBroken = "rules broken"

// offenceKept is how long after the last offence of an agent it is in trouble.
const offenceKept = 10 * time.Minute

// Offences are what agents have done that no agent does. They are for Hubs, which refuse it,
// and tell of it here. The zero Offences are none.
type Offences struct {
	mu sync.Mutex
	of map[string]offence // by agent
}

type offence struct {
	Trouble
	last time.Time
}

// Note notes what an agent has done. It reports whether the log is to be told, which it is once
// for each agent until it has behaved for a while.
func (o *Offences) Note(agent string, err error, now time.Time) (news bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	was, known := o.of[agent]
	news = !known || now.Sub(was.last) > offenceKept
	if news {
		was.Trouble = Trouble{Agent: agent, What: RulesBroken, Since: now}
	}
	was.Err, was.last = err, now
	if o.of == nil {
		o.of = map[string]offence{}
	}
	o.of[agent] = was
	return news
}

// Forget drops what is known of an agent.
func (o *Offences) Forget(agent string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.of, agent)
}

// Troubles returns those of agents that have not behaved for long enough, sorted by Agent.
func (o *Offences) Troubles(now time.Time) (all []Trouble) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for agent, one := range o.of {
		if now.Sub(one.last) > offenceKept {
			delete(o.of, agent)
			continue
		}
		all = append(all, one.Trouble)
	}
	SortTroubles(all)
	return all
}

// SortTroubles sorts as Troubled wants it.
func SortTroubles(all []Trouble) {
	slices.SortFunc(all, func(a, b Trouble) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.What, b.What))
	})
}
