package admin

import (
	"context"
	"slices"
	"time"

	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/verify"
)

// A comparison compares the two sides of the link to one agent, more than once: two stores
// are never read at the same moment.
type comparison struct {
	s       *Server
	agent   principal.AgentStatus
	place   principal.Placement
	objects int              // that were compared at the last look at all of them
	trails  map[place]*trail // of the differences that are still there
}

// A place is where a difference is.
type place struct {
	key  resource.Key
	what verify.What
}

func placeOf(d verify.Difference) place { return place{d.Key, d.What} }

// A trail is what was seen of a difference so far.
type trail struct {
	originals map[string]bool // what the original has had
	last      sides
	moved     bool // it was not the same at two looks
}

// The pauses between two looks double from the first to the last; where objects move, they
// are looked at some times more, one soon after the other.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 2 * time.Second
	chases     = 40
	chasePause = 100 * time.Millisecond
)

// A finding is a difference that stays.
type finding struct {
	verify.Difference
	moved bool // it is not the same all the time
}

// run returns the differences that stay for longer than settle.
func (c *comparison) run(ctx context.Context, settle time.Duration) ([]finding, error) {
	found, err := c.settle(ctx, settle)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	var keys []resource.Key
	for _, d := range found {
		if len(keys) < inquiry.MaxKeys && !slices.Contains(keys, d.Key) {
			keys = append(keys, d.Key)
		}
	}
	rest := c.findings(slices.DeleteFunc(found, func(d verify.Difference) bool { return slices.Contains(keys, d.Key) }))
	near, err := c.chase(ctx, keys)
	return append(c.findings(near), rest...), err
}

func (c *comparison) findings(those []verify.Difference) (out []finding) {
	for _, d := range those {
		out = append(out, finding{d, c.trails[placeOf(d)].moved})
	}
	return out
}

// settle looks at all objects until no difference is left, or for so long.
func (c *comparison) settle(ctx context.Context, within time.Duration) ([]verify.Difference, error) {
	end, first := time.Now().Add(within), true
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		now, err := c.look(ctx)
		if err != nil {
			return nil, err
		}
		found := c.follow(now, first)
		first = false
		left := time.Until(end)
		if len(found) == 0 || left <= 0 {
			return found, nil
		}
		if err := wait(ctx, min(pause, left)); err != nil {
			return nil, err
		}
	}
}

// chase looks at some objects only, for as long as differences move, and returns those that
// stay, as the whole objects show them.
func (c *comparison) chase(ctx context.Context, keys []resource.Key) ([]verify.Difference, error) {
	for i := 0; ; i++ {
		hub, spoke, err := c.whole(ctx, keys)
		if err != nil {
			return nil, err
		}
		found := c.follow(c.compare(brief(hub), brief(spoke)), false)
		moves := slices.ContainsFunc(found, func(d verify.Difference) bool { return c.trails[placeOf(d)].moved })
		if !moves || i == chases {
			return c.still(c.compare(hub, spoke)), nil
		}
		if err := wait(ctx, chasePause); err != nil {
			return nil, err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// look compares all objects once, by what stands for their long parts.
func (c *comparison) look(ctx context.Context) ([]verify.Difference, error) {
	// An autonomous agent's objects read otherwise on the hub: they are needed whole.
	short := c.agent.Mode == resource.Managed
	spoke, err := c.s.spoke(c.agent.Name).Objects(ctx, short, func(o resource.Object) resource.Object {
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
	for _, o := range hub {
		if c.agent.Mode == resource.Managed || o.Origin.By == c.agent.Name {
			keys[o.Key] = true
		}
	}
	for _, o := range spoke {
		if c.agent.Mode == resource.Autonomous || o.Origin.UID != "" {
			keys[o.Key] = true
		}
	}
	c.objects = len(keys)
	return c.compare(brief(hub), spoke), nil
}

// whole returns what both sides have of some keys.
func (c *comparison) whole(ctx context.Context, keys []resource.Key) (hub, spoke []resource.Object, err error) {
	if spoke, err = c.s.spoke(c.agent.Name).Whole(ctx, keys); err != nil {
		return nil, nil, err
	}
	for i, o := range spoke {
		spoke[i] = c.mapped(o)
	}
	if hub, err = c.s.cfg.Principal.Objects(ctx, c.agent.Name); err != nil {
		return nil, nil, err
	}
	return slices.DeleteFunc(hub, func(o resource.Object) bool { return !slices.Contains(keys, o.Key) }), spoke, nil
}

// mapped returns an agent's object as the hub is to have it.
func (c *comparison) mapped(o resource.Object) resource.Object {
	if !o.Excluded {
		o.Parts = c.place.Up(o.Key, o.Parts)
	}
	return o
}

func brief(objects []resource.Object) []resource.Object {
	out := make([]resource.Object, len(objects))
	for i, o := range objects {
		out[i] = inquiry.Brief(o)
	}
	return out
}

func (c *comparison) compare(hub, spoke []resource.Object) []verify.Difference {
	return verify.Compare(verify.Options{Mode: c.agent.Mode, Hub: c.s.cfg.Principal.Identity(), Agent: c.agent.Name}, hub, spoke)
}

// follow returns those differences that were there at every look so far. Those of a place
// are over once the copy has what the original has had at an earlier look: then it is only
// behind.
func (c *comparison) follow(now []verify.Difference, first bool) []verify.Difference {
	trails := map[place]*trail{}
	for p, text := range c.sides(now) {
		t := c.trails[p]
		switch {
		case t == nil && !first, t != nil && t.originals[text.made]:
			continue
		case t == nil:
			t = &trail{originals: map[string]bool{}}
		case t.last != text:
			t.moved = true
		}
		if text.original != "" {
			t.originals[text.original] = true
		}
		t.last, trails[p] = text, t
	}
	c.trails = trails
	return c.still(now)
}

// still returns those differences whose trails have not ended.
func (c *comparison) still(now []verify.Difference) []verify.Difference {
	return slices.DeleteFunc(now, func(d verify.Difference) bool { return c.trails[placeOf(d)] == nil })
}

// A sides is what the differences of a place say that the original has, and the copy.
type sides struct{ original, made string }

func (c *comparison) sides(those []verify.Difference) map[place]sides {
	out := map[place]sides{}
	for _, d := range those {
		s := out[placeOf(d)]
		if copiedToHub(c.agent.Mode, d.What) {
			d.Hub, d.Spoke = d.Spoke, d.Hub
		}
		s.original, s.made = s.original+d.Hub, s.made+d.Spoke
		out[placeOf(d)] = s
	}
	return out
}

// copiedToHub reports whether the hub has the copy of what differs.
func copiedToHub(m resource.Mode, w verify.What) bool {
	return m == resource.Autonomous || w == verify.Status || w == verify.OpState
}
