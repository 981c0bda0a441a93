package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A spoke is an Engine of an agent, fed by hand.
type spoke struct {
	*engine.Engine
	at  uint64
	now time.Time
}

func newSpoke() *spoke {
	s := &spoke{Engine: engine.New(engine.Config{Side: resource.Agent, Rules: resource.Rules{Adopt: true}, Self: "spoke"}), now: time.Unix(1_700_000_000, 0)}
	s.step(engine.Opened{Epoch: "epoch", Keeps: true})
	return s
}

// step returns what is to be written or removed.
func (s *spoke) step(ev engine.Event) (acts []engine.Action) {
	for _, a := range s.Step(s.now, ev) {
		if _, send := a.(engine.Send); !send {
			acts = append(acts, a)
		}
	}
	return acts
}

func (s *spoke) hears(k resource.Key, b engine.Body) []engine.Action {
	s.at++
	return s.step(engine.Received{At: s.at, Message: engine.Message{Key: k, Body: b}})
}

func live(spec string) engine.Record {
	return engine.Record{UID: "original", By: "hub", Parts: resource.Parts{resource.Spec: spec}}
}

func secret(name string) resource.Key { return resource.Key{Kind: resource.Secret, Name: name} }

// hubOf returns what a hub says that has these objects.
func hubOf(objects ...resource.Object) (says []engine.Message) {
	hub := engine.New(engine.Config{Side: resource.Principal, Self: "hub", Peer: "spoke"})
	events := []engine.Event{engine.Opened{Epoch: "hub's", Keeps: true}, engine.Tick{}}
	for _, o := range objects {
		events = slices.Insert(events, 0, engine.Event(engine.Changed{Object: o}))
	}
	for _, ev := range events {
		for _, a := range hub.Step(time.Unix(1_700_000_000, 0), ev) {
			says = append(says, a.(engine.Send).Message)
		}
	}
	return says
}

// written is the answer to a Write that was done.
func written(a engine.Action, uid string) (engine.Changed, engine.Wrote) {
	o := a.(engine.Write).Object
	o.UID, o.Version = uid, "1"
	return engine.Changed{Object: o}, engine.Wrote{Key: o.Key, Object: &o}
}

// TestWhatIsNeededIsMadeFirst: a repository before its project, and a project before its
// Applications, in whatever order they are heard of; and a change like a beginning.
func TestWhatIsNeededIsMadeFirst(t *testing.T) {
	s := newSpoke()
	repository := s.hears(secret("repository"), live(`{}`))
	require.Len(t, repository, 1)
	require.Empty(t, s.hears(app(0), live(`{}`)), "two ranks above")
	require.Empty(t, s.hears(project, live(`{}`)))
	require.Len(t, s.hears(secret("another"), live(`{}`)), 1, "of the same rank")
	require.Empty(t, s.step(engine.Tick{}), "however long that takes")

	changed, wrote := written(repository[0], "a1")
	s.step(changed)
	require.Empty(t, s.step(wrote), "one of the two is still being made")
	acts := s.step(engine.Wrote{Key: secret("another"), Outcome: engine.Failed, Text: "try again"})
	require.Len(t, acts, 1, "and what has failed once is not waited for")
	require.Equal(t, project, acts[0].(engine.Write).Object.Key)
	changed, wrote = written(acts[0], "a2")
	s.step(changed)
	acts = s.step(wrote)
	require.Len(t, acts, 1)
	require.Equal(t, app(0), acts[0].(engine.Write).Object.Key)
}

// TestWhatIsNeededGoesLast: a project whose deletion is known waits for an Application that
// is going, and for the whole of the hub's table.
func TestWhatIsNeededGoesLast(t *testing.T) {
	s := newSpoke()
	of := resource.Origin{UID: "original", By: "hub"}
	s.hears(project, live(`{}`))
	s.hears(app(0), live(`{}`))
	s.step(engine.Changed{Object: resource.Object{Key: project, UID: "a1", Version: "1", Origin: of, Parts: resource.Parts{resource.Spec: `{}`}}})
	s.step(engine.Wrote{Key: project})
	s.step(engine.Changed{Object: resource.Object{Key: app(0), UID: "a2", Version: "2", Origin: of, Parts: resource.Parts{resource.Spec: `{}`}}})
	s.step(engine.Wrote{Key: app(0)})

	require.Empty(t, s.hears(project, engine.Tombstone{UID: "original"}), "it may not be all that goes")
	for _, m := range hubOf(resource.Object{Key: app(0), UID: "original", Version: "1", Deleting: true, Parts: resource.Parts{resource.Spec: `{}`}}) {
		if acts := s.hears(m.Key, m.Body); m.Key == app(0) {
			require.Equal(t, []engine.Action{engine.Remove{Key: app(0), Version: "2"}}, acts)
		}
	}
	require.True(t, s.InStep())
	require.Empty(t, s.step(engine.Tick{}), "an Application is going")
	s.step(engine.Vanished{Key: app(0), UID: "a2", Seen: true})
	s.step(engine.Wrote{Key: app(0)})
	require.Equal(t, []engine.Action{engine.Remove{Key: project, Version: "1"}}, s.step(engine.Tick{}))
}

// TestAProjectThatComesLateIsSeen: Argo CD is asked to look again at the Applications that
// were invalid without it, and at no others.
func TestAProjectThatComesLateIsSeen(t *testing.T) {
	s := newSpoke()
	of := resource.Origin{UID: "original", By: "hub"}
	for i, status := range []string{`{"conditions":[{"type":"InvalidSpecError"}]}`, `{"conditions":[{"type":"SyncError"}]}`} {
		s.hears(app(i), live(`{}`))
		s.step(engine.Changed{Object: resource.Object{Key: app(i), UID: "a", Version: "1", Origin: of, Parts: resource.Parts{resource.Spec: `{}`, resource.Status: status}}})
		s.step(engine.Wrote{Key: app(i)})
	}
	acts := s.hears(project, live(`{}`))
	require.Len(t, acts, 1)
	changed, wrote := written(acts[0], "a1")
	s.step(changed)
	acts = s.step(wrote)
	require.Len(t, acts, 1)
	o := acts[0].(engine.Write).Object
	require.Equal(t, app(0), o.Key)
	require.Equal(t, resource.RefreshNormal, o.Parts[resource.RefreshMark])

	o.Version = "2"
	s.step(engine.Changed{Object: o})
	require.Empty(t, s.step(engine.Wrote{Key: o.Key, Object: &o}))
	o.Version, o.Parts[resource.RefreshMark] = "3", "" // Argo CD has looked
	require.Empty(t, s.step(engine.Changed{Object: o}), "once is enough")
}
