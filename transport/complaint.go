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

// complaintKept is how long after it was last given cause a complaint lasts.
const complaintKept = 10 * time.Minute

// Complaints are what a Hub has to complain of in agents, each of which is refused what it does
// and may try again and again. They become its Troubles. The zero Complaints are none.
type Complaints struct {
	mu  sync.Mutex
	all map[complaint]caused
}

// A complaint is Agent and What of a Trouble.
type complaint struct{ agent, what string }

type caused struct {
	Trouble
	last time.Time
}

// Note notes what an agent has given cause for. It reports whether the log is to be told, which
// it is once until there has been no cause for a while.
func (c *Complaints) Note(agent, what string, err error, now time.Time) (news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := complaint{agent, what}
	was, known := c.all[of]
	news = !known || now.Sub(was.last) > complaintKept
	if news {
		was.Trouble = Trouble{Agent: agent, What: what, Since: now}
	}
	was.Err, was.last = err, now
	if c.all == nil {
		c.all = map[complaint]caused{}
	}
	c.all[of] = was
	return news
}

// End notes that there is no cause any more.
func (c *Complaints) End(agent, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, complaint{agent, what})
}

// Forget drops what is known of an agent.
func (c *Complaints) Forget(agent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for of := range c.all {
		if of.agent == agent {
			delete(c.all, of)
		}
	}
}

// Troubles returns those for which there was cause lately, as Troubled wants them.
func (c *Complaints) Troubles(now time.Time) (all []Trouble) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for of, one := range c.all {
		if now.Sub(one.last) > complaintKept {
			delete(c.all, of)
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
