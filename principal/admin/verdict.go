package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/verify"
)

// MaxSettle is how long differences may take to settle at most.
const MaxSettle = time.Minute

// The pauses between two looks double from the first to the last.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 2 * time.Second
)

// verify compares what both sides of the link to an agent have, read afresh from their
// stores. What is on its way differs for a moment: only differences that are there at every
// look are told.
func (s *Server) verify(r *http.Request) (any, error) {
	settle, err := time.ParseDuration(r.FormValue("settle"))
	if err != nil || settle < 0 || settle > MaxSettle {
		return nil, fmt.Errorf("admin: %w: settle is a duration of up to %v", errRequest, MaxSettle)
	}
	a, err := s.cfg.Principal.Agent(r.PathValue("agent"))
	if err != nil {
		return nil, err
	}
	c := comparison{s: s, agent: a, place: principal.Placement{Agent: a.Name, Mode: a.Mode}}
	out := Verdict{Agent: a.Name, Differences: []Difference{}}
	found, err := c.settle(r.Context(), settle)
	if err == nil && len(found) > 0 {
		found, err = c.whole(r.Context(), found)
	}
	if err != nil {
		out.Error = err.Error()
		return out, nil
	}
	out.Objects = c.objects
	letters, _ := s.lettersOf(r.Context(), a.Name)
	for _, d := range found {
		out.Differences = append(out.Differences, Difference{
			Agent: a.Name, Key: d.Key.String(), What: string(d.What), Hub: d.Hub, Spoke: d.Spoke, Reason: c.reason(d, letters),
		})
	}
	return out, nil
}

// A comparison compares the two sides of the link to one agent.
type comparison struct {
	s       *Server
	agent   principal.AgentStatus
	place   principal.Placement
	objects int            // that were compared at the last look
	moved   map[place]bool // differences whose sides have changed between two looks
}

// A place is where a difference is.
type place struct {
	key  resource.Key
	what verify.What
}

func placeOf(d verify.Difference) place { return place{d.Key, d.What} }

// settle returns the differences that are there at every look, for as long as there are
// any.
func (c *comparison) settle(ctx context.Context, within time.Duration) (found []verify.Difference, err error) {
	c.moved = map[place]bool{}
	end := time.Now().Add(within)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		now, err := c.look(ctx)
		if err != nil {
			return nil, err
		}
		if found == nil {
			found = now
		} else {
			found = c.persist(found, now)
		}
		left := time.Until(end)
		if len(found) == 0 || left <= 0 {
			return found, nil
		}
		select {
		case <-time.After(min(pause, left)):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// look compares the two sides once, by what stands for long parts.
func (c *comparison) look(ctx context.Context) ([]verify.Difference, error) {
	// An autonomous agent's objects read otherwise on the hub: they are needed whole.
	brief := c.agent.Mode == resource.Managed
	spoke, err := c.s.spoke(c.agent.Name).Objects(ctx, brief, func(o resource.Object) resource.Object {
		return inquiry.Brief(c.mapped(o))
	})
	if err != nil {
		return nil, err
	}
	hub, err := c.s.cfg.Principal.Objects(ctx, c.agent.Name)
	if err != nil {
		return nil, err
	}
	keys := map[resource.Key]bool{}
	for i, o := range hub {
		keys[o.Key] = true
		hub[i] = inquiry.Brief(o)
	}
	for _, o := range spoke {
		if c.agent.Mode == resource.Autonomous || o.Origin.UID != "" {
			keys[o.Key] = true
		}
	}
	c.objects = len(keys)
	return c.compare(hub, spoke), nil
}

// mapped returns an agent's object as the hub is to have it.
func (c *comparison) mapped(o resource.Object) resource.Object {
	if !o.Excluded {
		o.Parts = c.place.Up(o.Key.Kind, o.Parts)
	}
	return o
}

func (c *comparison) compare(hub, spoke []resource.Object) []verify.Difference {
	return verify.Compare(verify.Options{Mode: c.agent.Mode, Hub: c.s.cfg.Principal.Identity(), Agent: c.agent.Name}, hub, spoke)
}

// persist returns those of now that are also among before.
func (c *comparison) persist(before, now []verify.Difference) []verify.Difference {
	was := map[place]verify.Difference{}
	for _, d := range before {
		was[placeOf(d)] = d
	}
	return slices.DeleteFunc(now, func(d verify.Difference) bool {
		earlier, known := was[placeOf(d)]
		if known && (earlier.Hub != d.Hub || earlier.Spoke != d.Spoke) {
			c.moved[placeOf(d)] = true
		}
		return !known
	})
}

// whole returns those differences that are still there, the first of them as the whole
// objects show them.
func (c *comparison) whole(ctx context.Context, found []verify.Difference) ([]verify.Difference, error) {
	var keys []resource.Key
	for _, d := range found {
		if len(keys) < inquiry.MaxKeys && !slices.Contains(keys, d.Key) {
			keys = append(keys, d.Key)
		}
	}
	spoke, err := c.s.spoke(c.agent.Name).Whole(ctx, keys)
	if err != nil {
		return nil, err
	}
	for i, o := range spoke {
		spoke[i] = c.mapped(o)
	}
	all, err := c.s.cfg.Principal.Objects(ctx, c.agent.Name)
	if err != nil {
		return nil, err
	}
	hub := slices.DeleteFunc(all, func(o resource.Object) bool { return !slices.Contains(keys, o.Key) })
	out := c.persist(found, c.compare(hub, spoke))
	for _, d := range found {
		if !slices.Contains(keys, d.Key) {
			out = append(out, d)
		}
	}
	return out, nil
}

// reason returns why two sides differ, as far as anybody knows.
func (c *comparison) reason(d verify.Difference, letters []Letter) string {
	for _, h := range describe(c.agent).Held {
		if h.Key == d.Key.String() {
			return "its deletion is held until it is approved: argocd-agentctl agent approve-deletions " + c.agent.Name
		}
	}
	for _, l := range letters {
		if l.Key == d.Key.String() {
			return fmt.Sprintf("dead letter %s of the %s: %s: %s", l.ID, l.Side, l.Cause, l.Reason)
		}
	}
	unsettled := ""
	switch st := c.agent.Session; {
	case c.moved[placeOf(d)]:
		unsettled = "it changes all the time"
	case st.Err != nil:
		unsettled = st.Err.Error()
	case !st.Engine.InStep:
		unsettled = "not all that the agent has said has arrived"
	}
	return cmp.Or(d.Reason, unsettled)
}
