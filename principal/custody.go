package principal

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

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
// none of the others. A row of the log that says Excluded says neither that the agent was
// shown the Application nor that it was not: what is so is for the agent to say.
//
// Two ways are left in which one may be at two agents. An agent that is away may have one of
// which it has never said a word; if the log towards it is lost as well, nobody knows (to wait
// in that case would keep new Applications from everybody for as long as one agent is away).
// And an agent that does not look into a namespace any more says that it has nothing there.
//
// An Application whose destination names no managed agent stays where it is, and is parked: a
// slip of the pen, or a registry that shows less than there is, must not delete what runs. So
// does one whose agent is not served any more.
type custody struct {
	keepers map[string]*keeper         // the agents that are, or were, registered as managed
	trusts  map[string]trust           // by UID; one that is there, empty or not, has all that there is to know
	doubts  map[string]map[string]bool // by UID, of agents that may have it or not: the log towards them does not say
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
	ran      bool // an agent has said something of it, so it has been somewhere
}

func newCustody() custody {
	return custody{keepers: map[string]*keeper{}, trusts: map[string]trust{}, doubts: map[string]map[string]bool{}}
}

// settle says what each agent is to be shown of an Application, hidden ones left out, and for
// what it waits if that is so. It may give it to the agent at which it is aimed, or take note
// that one has given it up.
func (c *custody) settle(m matter) (shown map[string]verdict, waits string) {
	shown = map[string]verdict{}
	t := c.trusts[m.uid]
	maps.DeleteFunc(t, func(agent string, h hold) bool {
		k := c.keepers[agent]
		gone := (h == taken || h == ended && !m.deleting) && k.gone[m.uid]
		if gone {
			k.ceded[m.uid] = true
		}
		return gone
	})
	for agent, h := range t {
		shown[agent] = c.judge(m, h, agent, len(t) == 1)
	}
	c.oneByOne(m.uid, shown)
	for agent, v := range shown {
		if v == leaving {
			t[agent] = taken
		} else if v == dying {
			t[agent] = ended
		}
	}
	for agent := range c.doubts[m.uid] {
		if k := c.keepers[agent]; k.whole && !k.gone[m.uid] {
			delete(c.doubts[m.uid], agent) // it is heard, and says nothing of it
		} else {
			shown[agent] = parked
		}
	}
	switch others := c.misplaced(m); {
	case m.still:
	case len(others) > 0:
		return shown, c.awaits(m, others)
	case len(t) == 0:
		return shown, c.give(m, shown)
	}
	return shown, ""
}

// oneByOne parks all agents but one that have an Application: each would make it say how its own
// copy stands, against the others, for as long as one of them cannot give it up. One that keeps
// its copy comes last.
func (c *custody) oneByOne(uid string, shown map[string]verdict) {
	rank := func(agent string) int { return min(len(c.keepers[agent].keeps[uid]), 1) }
	agents := slices.SortedFunc(maps.Keys(shown), func(a, b string) int {
		return cmp.Or(rank(a)-rank(b), strings.Compare(a, b))
	})
	first := true
	for _, agent := range agents {
		switch {
		case shown[agent] == parked:
		case first:
			first = false
		default:
			shown[agent] = parked
		}
	}
}

// judge says what an agent that may have an Application is to be shown of it.
func (c *custody) judge(m matter, h hold, agent string, only bool) verdict {
	k := c.keepers[agent]
	goes := m.deleting || agent != m.to
	switch {
	case m.still, !k.served, h == given && c.stays(m):
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

// stays reports whether an Application is to be at no agent, and yet not to go.
func (c *custody) stays(m matter) bool { return !m.deleting && !c.serves(m.to) }

func (c *custody) serves(agent string) bool {
	k := c.keepers[agent]
	return k != nil && k.served
}

// give gives an Application that no agent has to the one at which it is aimed, or says for
// what that waits.
func (c *custody) give(m matter, shown map[string]verdict) (waits string) {
	to, unknown := c.keepers[m.to], c.unknown(m)
	switch {
	case c.stays(m) && (m.to == "" || m.ran && c.trusts[m.uid] == nil):
		return "" // it may be the hub's own
	case c.stays(m):
		return fmt.Sprintf("no managed agent is called %s", m.to)
	case len(unknown) > 0:
		if c.serves(m.to) && !to.met && m.ran {
			shown[m.to] = parked // it may have it: it must not miss it
		}
		return fmt.Sprintf("it is not known yet whether agent %s has it", strings.Join(unknown, ", "))
	case !c.serves(m.to):
		return "no agent has it: it goes once a controller here has seen to that, or its finalizers are taken off"
	case m.deleting:
		shown[m.to] = dying // it will not be made there
	default:
		c.entrust(m.uid, m.to, given)
		shown[m.to] = there
	}
	return ""
}

// misplaced returns the agents that have an Application and are not to, or not as they have
// it, sorted.
func (c *custody) misplaced(m matter) (agents []string) {
	for agent, h := range c.trusts[m.uid] {
		if agent != m.to || h == taken || !c.serves(agent) {
			agents = append(agents, agent)
		}
	}
	slices.Sort(agents)
	return agents
}

// awaits says for what an Application waits that is misplaced.
func (c *custody) awaits(m matter, agents []string) string {
	var texts, leave []string
	for _, agent := range agents {
		k := c.keepers[agent]
		switch {
		case !k.served:
			texts = append(texts, fmt.Sprintf("agent %s may have it still, and is %s", agent, k.since))
		case k.keeps[m.uid] != "":
			texts = append(texts, fmt.Sprintf("agent %s keeps its own copy: %s", agent, k.keeps[m.uid]))
		case c.stays(m) && c.trusts[m.uid][agent] == given:
			texts = append(texts, fmt.Sprintf("its destination names no managed agent: agent %s keeps it as it is until it names one, or it is deleted", agent))
		default:
			leave = append(leave, agent)
		}
	}
	if len(leave) > 0 {
		texts = append(texts, fmt.Sprintf("waiting for agent %s to give it up", strings.Join(leave, ", ")))
	}
	return strings.Join(texts, "; ")
}

// unknown returns the agents of which it is not known whether they have an Application,
// sorted. Of one that has been seen at some agent that is known of all, doubts aside.
func (c *custody) unknown(m matter) (agents []string) {
	_, known := c.trusts[m.uid]
	for agent, k := range c.keepers {
		if (agent != m.to || !k.served) && (!k.read || c.doubts[m.uid][agent] || !k.met && m.ran && !known) {
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
		delete(c.keepers[agent].ceded, uid)
	}
	delete(c.doubts[uid], agent)
}

// forget says that an Application is no more.
func (c *custody) forget(uid string) {
	delete(c.trusts, uid)
	delete(c.doubts, uid)
	for _, k := range c.keepers {
		delete(k.gone, uid)
		delete(k.ceded, uid)
		delete(k.keeps, uid)
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
