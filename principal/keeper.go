package principal

import (
	"slices"
	"strings"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A keeper is an agent that may have Applications.
type keeper struct {
	served bool              // it is registered as managed
	since  string            // if not, what it is instead, and what there is to do about it
	read   bool              // what the log towards it says is known
	intact bool              // that log was not lost, or it has been met since
	heard  bool              // the kept copy of its rows has been gone through
	met    bool              // there is nothing that it may have and that is not known
	whole  bool              // that was seen by this process
	gone   map[string]bool   // of which UIDs its row says Gone
	ceded  map[string]bool   // which UIDs it has given up, and was not shown again
	keeps  map[string]string // of which its row says that it will not give up what it has, and why
}

const (
	unregistered = "registered no more: waiting until what is kept for it is removed"
	autonomous   = "registered as autonomous: register it as managed, or remove it"
)

func newKeeper() *keeper {
	return &keeper{gone: map[string]bool{}, ceded: map[string]bool{}, keeps: map[string]string{}}
}

// enrol says which agents are registered, as managed and otherwise. One that is managed no
// more keeps what it may have: its registration may be back at once, and what it runs is not
// gone with it. It returns those of them that were until now, and how many Applications each
// may have.
func (c *custody) enrol(managed, others []string) (left map[string]int) {
	left = map[string]int{}
	for agent, k := range c.keepers {
		if k.served && !slices.Contains(managed, agent) {
			k.served, k.heard = false, false
			left[agent] = c.count(agent)
		}
		k.since = unregistered
		if slices.Contains(others, agent) {
			k.since = autonomous
			if !k.read && c.count(agent) == 0 {
				delete(c.keepers, agent) // nothing will be known of it
			}
		}
	}
	for _, agent := range managed {
		if c.keepers[agent] == nil {
			c.keepers[agent] = newKeeper()
		}
		c.keepers[agent].served = true
	}
	return left
}

// remain says that agents were removed while no principal ran, and are not forgotten yet.
func (c *custody) remain(agents []string) {
	for _, agent := range agents {
		k := newKeeper()
		k.read, k.since = true, unregistered
		c.keepers[agent] = k
	}
}

// forgotten says that all is removed that was kept for an agent, so that it is no agent any
// more and nothing that it has is waited for. It returns how many Applications it may have
// had. One that is registered again is as if it were new, but for what it may have.
func (c *custody) forgotten(agent string) (had int) {
	k := c.keepers[agent]
	switch {
	case k == nil:
		return 0
	case k.served:
		c.keepers[agent] = newKeeper()
		c.keepers[agent].served = true
		return 0
	}
	had = c.count(agent)
	delete(c.keepers, agent)
	for _, t := range c.trusts {
		delete(t, agent)
	}
	for _, d := range c.doubts {
		delete(d, agent)
	}
	return had
}

// count returns how many Applications an agent may have.
func (c *custody) count(agent string) (n int) {
	for _, t := range c.trusts {
		if _, has := t[agent]; has {
			n++
		}
	}
	return n
}

// open says that a session with an agent begins, whose log is intact or was lost, and holds
// rows of these Applications.
func (c *custody) open(agent string, intact bool, rows map[string]engine.Phase) {
	k := c.keepers[agent]
	if k == nil {
		return
	}
	for uid, phase := range rows {
		switch {
		case phase == engine.Going:
			c.entrust(uid, agent, taken)
		case phase != engine.Excluded:
			c.entrust(uid, agent, given)
		case !k.read: // else it is known why it says so
			if c.doubts[uid] == nil {
				c.doubts[uid] = map[string]bool{}
			}
			c.doubts[uid][agent] = true
		}
	}
	k.read, k.intact, k.heard = true, intact, false
}

// complete reports whether all logs have been read.
func (c *custody) complete() bool {
	for _, k := range c.keepers {
		if k.served && !k.read {
			return false
		}
	}
	return true
}

// replayed says that all has been heard which the kept copy of an agent's rows holds.
func (c *custody) replayed(agent string) {
	if k := c.keepers[agent]; k != nil {
		k.heard = true
	}
}

// meet says that the agent has been heard of: now, as a whole, or at some time before.
func (c *custody) meet(agent string, now bool) (news bool) {
	k := c.keepers[agent]
	if k == nil || k.whole || k.met && !now || !now && !k.intact {
		return false
	}
	k.met, k.whole = true, now
	return true
}

// said says what the row of an agent says of an Application, or that it says nothing.
func (c *custody) said(agent, uid string, row engine.Record, says bool) {
	k := c.keepers[agent]
	if k == nil {
		return
	}
	delete(k.gone, uid)
	delete(k.keeps, uid)
	switch {
	case !says || row.UID != uid:
	case row.Phase == engine.Gone && row.Parts[resource.Fault] == "":
		k.gone[uid] = true
	case c.credible(k, agent, uid):
		c.entrust(uid, agent, given)
		if row.Phase == engine.Gone {
			k.keeps[uid] = short(row.Parts[resource.Fault])
		}
	}
}

// credible reports whether an agent may have what it says it has: it was shown it, or nobody
// else has it, or what it was shown is not all known. Else anyone who knows of an Application
// could have it withheld from the one that has it, and who has given it up knows of it.
func (c *custody) credible(k *keeper, agent, uid string) bool {
	t := c.trusts[uid]
	_, has := t[agent]
	return has || len(t) == 0 || c.doubts[uid][agent] || (!k.intact || !k.met) && !k.ceded[uid]
}

// short returns the beginning of what an agent says why. It becomes part of what an Application
// says, which is written again and again while that does not succeed.
func short(text string) string {
	const most = 500
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
