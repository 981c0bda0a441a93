package principal

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// of returns the hub's store as it is for one agent.
func (a *allotment) of(agent string) backend.Store { return allotted{a, agent} }

// An allotted is what an allotment shows to one agent.
type allotted struct {
	*allotment
	agent string
}

// Watch implements backend.Store. It waits until the store is listed.
func (s allotted) Watch(ctx context.Context, scope backend.Scope, f func(backend.Event) error) error {
	for {
		s.mu.Lock()
		whole := s.whole
		select {
		case <-whole:
			run := s.begin(scope)
			s.mu.Unlock()
			return run(ctx, f)
		default:
			s.mu.Unlock()
		}
		select {
		case <-whole:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// begin begins a watch.
func (s allotted) begin(scope backend.Scope) func(context.Context, func(backend.Event) error) error {
	var objects []resource.Object
	for k, o := range s.objects {
		switch {
		case k.Kind == resource.Application:
			if is, ok := shownAs(o, s.shown[k][s.agent]); ok {
				objects = append(objects, is)
			}
		case k.Namespace == s.home:
			objects = append(objects, o)
		}
	}
	slices.SortFunc(objects, func(a, b resource.Object) int { return a.Key.Compare(b.Key) })
	return s.feed(s.agent).Watch(scope, objects, backend.Synced{Revision: s.revision})
}

// Write implements backend.Store. What is not shown to the agent its session cannot write, and
// only of an Application that is being deleted can it take the finalizers off: not of one that
// was shown to leave, also if that has ended meanwhile.
func (s allotted) Write(ctx context.Context, want resource.Object) (resource.Object, error) {
	s.mu.Lock()
	cur, v, feed := s.objects[want.Key], s.shown[want.Key][s.agent], s.feed(s.agent)
	s.mu.Unlock()
	if v == hidden || v == parked {
		return resource.Object{}, fmt.Errorf("principal: write %s: it is not with agent %s: %w", want.Key, s.agent, backend.ErrConflict)
	}
	if v != dying {
		want.Parts[resource.Meta] = cur.Parts[resource.Meta]
	}
	if v == leaving {
		want.Parts[resource.Pending] = cur.Parts[resource.Pending]
	}
	stored, err := s.store.Write(ctx, want)
	if err == nil {
		err = feed.Shown(ctx, want.Key)
	}
	stored, _ = shownAs(stored, v)
	return stored, err
}

// Remove implements backend.Store. The principal never removes what is a managed agent's.
func (s allotted) Remove(_ context.Context, k resource.Key, _ string) error {
	return fmt.Errorf("principal: remove %s: it is the hub's own: %w", k, backend.ErrRefused)
}

// A chosen shows of the hub's store some of the Applications only.
type chosen struct {
	backend.Store
	as func(resource.Object) (resource.Object, bool)
}

// Watch implements backend.Store.
func (s chosen) Watch(ctx context.Context, scope backend.Scope, f func(backend.Event) error) error {
	return s.Store.Watch(ctx, scope, func(e backend.Event) error {
		if e.Put == nil || e.Put.Key.Kind != resource.Application {
			return f(e)
		}
		o, is := s.as(*e.Put)
		if !is {
			return nil
		}
		return f(backend.Event{Put: &o})
	})
}

// aims reports whether an Application is aimed at an agent, whoever has it: what should be,
// for those who compare it with what is. If it is not synchronised, or aimed at nobody, it is
// whether the agent may have it.
func (a *allotment) aims(o resource.Object, agent string) (resource.Object, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m, v := a.matter(o), a.shown[o.Key][agent]
	switch {
	case m.still:
		return o, v != hidden
	case a.custody.serves(m.to):
		return o, m.to == agent
	}
	return shownAs(o, v)
}

// holds reports whether a deletion of an Application waits for an agent: which may have it, or
// is to say that nobody has.
func (a *allotment) holds(o resource.Object, agent string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.custody.trusts[o.UID]
	_, has := t[agent]
	return has || len(t) == 0 && a.matter(o).to == agent
}

// holders returns the agents that may have an Application.
func (a *allotment) holders(uid string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.custody.trusts[uid]))
}
