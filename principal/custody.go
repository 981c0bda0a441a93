package principal

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A custody knows which agents may have a copy of which Application, and sees to it that no
// two ever have one at the same time. It is pure: what it is told are facts, and what it says
// is what each agent is to be shown of an Application.
//
// An agent that was shown an Application may have a copy of it from then on, until its row
// says Gone, and that counts only if it was shown that the Application is leaving: then it
// has deleted its copy as Argo CD deletes, with all that this has deployed if there is the
// finalizer for it. Whoever is leaving leaves, even if the Application was aimed at it again
// meanwhile. And before an agent that has said Gone can be shown to leave a second time, its
// row must have said something else: what it said of the first time is no word about the
// second. So each of the two waits for the other in turn, and a word that is late, or is said
// again, is never mistaken.
//
// What was known before this process is in the log towards each agent, which is local. Where
// that was lost it is in the agent's rows. For as long as neither is known of some agent,
// Applications wait which that agent may have: those that have been somewhere, and are at
// none of the others.
type custody struct {
	keepers map[string]*keeper // the managed agents that are registered
	trusts  map[string]trust   // by UID; one that is there, empty or not, has all that there is to know
}

// A keeper is an agent that may have Applications.
type keeper struct {
	read   bool            // what the log towards it says is known
	intact bool            // that log was not lost
	heard  bool            // the kept copy of its rows has been gone through
	met    bool            // there is nothing that it may have and that is not known
	gone   map[string]bool // of which UIDs its row says Gone
}

// A trust are the agents that may have one Application, and what each was shown last.
type trust map[string]hold

// A hold says how an agent has an Application.
type hold uint8

const (
	given hold = iota // it was shown it
	taken             // it was shown that it is leaving
	ended             // it was shown that it is being deleted, which is so
)

// A verdict says what an agent is to be shown of an Application.
type verdict uint8

const (
	hidden  verdict = iota // nothing
	there                  // that it is there, even if it is being deleted
	leaving                // that it is being deleted, even if it is not
	dying                  // that it is being deleted, as it is
	parked                 // that it is not synchronised, whatever the agent has
)

// A matter is an Application as far as custody goes.
type matter struct {
	uid      string
	to       string // the agent at which it is aimed, "" for none
	still    bool   // it is excluded: all stays as it is
	deleting bool
	ran      bool // it has a status, so it has been somewhere
}

func newCustody() custody {
	return custody{keepers: map[string]*keeper{}, trusts: map[string]trust{}}
}

// settle says what each agent is to be shown of an Application, hidden ones left out, and for
// what it waits if that is so. It may give it to the agent at which it is aimed, or take note
// that one has given it up.
func (c *custody) settle(m matter) (shown map[string]verdict, waits string) {
	shown = map[string]verdict{}
	t := c.trusts[m.uid]
	maps.DeleteFunc(t, func(agent string, h hold) bool {
		return (h == taken || h == ended && !m.deleting) && c.keepers[agent].gone[m.uid]
	})
	for agent, h := range t {
		v := c.judge(m, h, agent, len(t) == 1)
		if v == leaving {
			t[agent] = taken
		} else if v == dying {
			t[agent] = ended
		}
		shown[agent] = v
	}
	_, has := t[m.to]
	switch others := leavers(t, m.to); {
	case m.still:
	case len(others) > 0:
		return shown, fmt.Sprintf("waiting for agent %s to give it up", strings.Join(others, ", "))
	case m.to != "" && !has:
		return shown, c.give(m, shown)
	}
	return shown, ""
}

// judge says what an agent that may have an Application is to be shown of it.
func (c *custody) judge(m matter, h hold, agent string, only bool) verdict {
	k := c.keepers[agent]
	goes := m.deleting || agent != m.to
	switch {
	case m.still:
		return parked
	case h == given && goes && (k.gone[m.uid] || !k.heard):
		return there // until it is known that it has heard so
	case m.deleting && only:
		return dying
	case h != given || agent != m.to:
		return leaving
	case !only:
		return parked
	}
	return there
}

// give gives an Application that no agent has to the one at which it is aimed, or says for
// what that waits.
func (c *custody) give(m matter, shown map[string]verdict) (waits string) {
	to, unknown := c.keepers[m.to], c.unknown(m)
	switch {
	case to == nil && m.ran && c.trusts[m.uid] == nil:
		return "" // it may be the hub's own
	case to == nil:
		return fmt.Sprintf("no managed agent is called %s", m.to)
	case len(unknown) > 0:
		if !to.met && m.ran {
			shown[m.to] = parked // it may have it: it must not miss it
		}
		return fmt.Sprintf("it is not known yet whether agent %s has it", strings.Join(unknown, ", "))
	case m.deleting:
		shown[m.to] = dying // it will not be made there
	default:
		c.entrust(m.uid, m.to, given)
		shown[m.to] = there
	}
	return ""
}

// leavers returns the agents of a trust that must give the Application up, sorted.
func leavers(t trust, to string) (others []string) {
	for agent, h := range t {
		if agent != to || h == taken {
			others = append(others, agent)
		}
	}
	slices.Sort(others)
	return others
}

// unknown returns the agents of which it is not known whether they have an Application,
// sorted. Of one that has been seen at some agent that is known of all.
func (c *custody) unknown(m matter) (agents []string) {
	_, known := c.trusts[m.uid]
	for agent, k := range c.keepers {
		if agent != m.to && (!k.read || !k.met && m.ran && !known) {
			agents = append(agents, agent)
		}
	}
	slices.Sort(agents)
	return agents
}

// entrust takes note that an agent may have an Application.
func (c *custody) entrust(uid, agent string, h hold) {
	if c.trusts[uid] == nil {
		c.trusts[uid] = trust{}
	}
	if _, has := c.trusts[uid][agent]; !has {
		c.trusts[uid][agent] = h
	}
}

// enrol says which managed agents are registered. It returns how many Applications each of
// those may have that are registered no more: they are not waited for.
func (c *custody) enrol(agents []string) (left map[string]int) {
	left = map[string]int{}
	for agent := range c.keepers {
		if slices.Contains(agents, agent) {
			continue
		}
		delete(c.keepers, agent)
		left[agent] = 0
		for _, t := range c.trusts {
			if _, has := t[agent]; has {
				delete(t, agent)
				left[agent]++
			}
		}
	}
	for _, agent := range agents {
		if c.keepers[agent] == nil {
			c.keepers[agent] = &keeper{gone: map[string]bool{}}
		}
	}
	return left
}

// open says that a session with an agent begins, whose log is intact or was lost, and holds
// rows of these Applications.
func (c *custody) open(agent string, intact bool, rows map[string]engine.Phase) {
	k := c.keepers[agent]
	if k == nil {
		return
	}
	k.read, k.intact, k.heard = true, intact, false
	for uid, phase := range rows {
		h := given
		if phase == engine.Going {
			h = taken
		}
		c.entrust(uid, agent, h)
	}
}

// complete reports whether all logs have been read.
func (c *custody) complete() bool {
	for _, k := range c.keepers {
		if !k.read {
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
	if k == nil || k.met || !now && !k.intact {
		return false
	}
	k.met = true
	return true
}

// said says what the row of an agent says of an Application, or that it says nothing.
func (c *custody) said(agent, uid string, row engine.Record, says bool) {
	k := c.keepers[agent]
	switch {
	case k == nil:
	case !says || row.UID != uid:
		delete(k.gone, uid)
	case row.Phase != engine.Gone:
		delete(k.gone, uid)
		c.entrust(uid, agent, given)
	default:
		k.gone[uid] = true
	}
}

// forget says that an Application is no more.
func (c *custody) forget(uid string) {
	delete(c.trusts, uid)
	for _, k := range c.keepers {
		delete(k.gone, uid)
	}
}

// shownAs returns an Application as an agent is to see it, false if it is not.
func shownAs(o resource.Object, v verdict) (resource.Object, bool) {
	switch v {
	case hidden:
		return o, false
	case there:
		o.Deleting = false
	case leaving:
		// Why it is pending is not for the session to say.
		o.Deleting, o.Parts[resource.Pending] = true, ""
	case parked:
		o.Excluded, o.Parts = true, resource.Parts{}
	}
	return o, true
}
