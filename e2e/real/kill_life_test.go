package real

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

// A life is that of some Applications which are changed, created and deleted on both sides
// while something else happens. Those on the first spoke deploy something there; on the
// second the story itself writes the status.
type life struct {
	one, two *agent
	repo     *stack.GitRepo // of those on the first spoke
	name     string
	changes  int
	syncs    syncs
	before   census
	gone     order // what was, or will be, ordered to go
}

// newLife creates the Applications, and returns once they are deployed and in step.
func newLife(t *testing.T, w *world, name string) *life {
	l := &life{one: w.agent(t, "edge-1"), two: w.agent(t, "edge-2"), repo: w.repo(t, name), name: name}
	l.create(t, "kept")
	l.create(t, "orphaned")
	l.create(t, "cascaded", cascading)
	l.syncs = newSyncs(t, l.one, l.app("run"), l.repo)
	l.two.hub.create(t, application(name, spec(l.two.name, "https://git.example.com/life.git", name)))
	for _, app := range []string{"kept", "orphaned", "cascaded"} {
		within(t, time.Minute, l.one.hub.is(l.app(app), healthy))
	}
	within(t, patience, all(l.syncs.once, l.two.spoke.is(name), w.inStep))
	l.before, l.gone = w.census(t), order{l.app("orphaned"): false, l.app("cascaded"): true}
	return l
}

func (l *life) app(name string) string { return l.name + "-" + name }

// create creates an Application on the hub which deploys something on the first spoke, and
// returns its name.
func (l *life) create(t *testing.T, name string, as ...func(*unstructured.Unstructured) *unstructured.Unstructured) string {
	app := application(l.app(name), spec(l.one.name, l.repo.URL(), l.app(name)))
	for _, change := range as {
		app = change(app)
	}
	l.one.hub.create(t, app)
	return l.app(name)
}

// change changes a spec on the hub and a status on a spoke, and asks for a sync.
func (l *life) change(t *testing.T) {
	l.changes++
	l.one.hub.patch(t, l.app("kept"), fields{"spec": fields{"info": l.info()}})
	l.two.spoke.patch(t, l.name, fields{"status": status(l.changes)})
	l.syncs.ask(t)
}

func (l *life) info() []any { return []any{fields{"name": "change", "value": fmt.Sprint(l.changes)}} }

// order creates an Application on the hub, and deletes two: one with all that it has
// deployed, and one without.
func (l *life) order(t *testing.T) {
	l.create(t, "created")
	l.one.hub.remove(t, l.app("orphaned"))
	l.one.hub.remove(t, l.app("cascaded"))
}

// ended checks that all that was changed and ordered is so on both sides.
func (l *life) ended(ctx context.Context) error {
	hub, spoke := l.one.hub, l.one.spoke
	return all(
		hub.is(l.app("kept"), healthy), spoke.is(l.app("kept"), has(l.info(), "spec", "info")),
		hub.is(l.app("created"), healthy), deployed(spoke.Cluster, l.app("created")),
		hub.gone(l.app("orphaned")), spoke.gone(l.app("orphaned")), deployed(spoke.Cluster, l.app("orphaned")),
		hub.gone(l.app("cascaded")), spoke.gone(l.app("cascaded")), undeployed(spoke.Cluster, l.app("cascaded")),
		l.syncs.once,
		l.two.hub.is(l.name, has(revision(l.changes), "status", "sync", "revision")),
	)(ctx)
}

// unharmed expects that nothing is gone or another but what was ordered.
func (l *life) unharmed(t *testing.T, w *world) {
	t.Helper()
	require.NotEmpty(t, l.before)
	w.unharmed(t, l.before, l.gone)
}

// A syncs is an Application that is synced when it is asked for, and how often it was.
type syncs struct {
	agent *agent
	name  string
	asked int
}

// newSyncs creates the Application, and asks for the first sync.
func newSyncs(t *testing.T, a *agent, name string, repo *stack.GitRepo) syncs {
	s := spec(a.name, repo.URL(), name)
	delete(s["syncPolicy"].(fields), "automated")
	a.hub.create(t, application(name, s))
	within(t, time.Minute, a.hub.is(name, has("OutOfSync", "status", "sync", "status")))
	out := syncs{agent: a, name: name}
	out.ask(t)
	return out
}

// ask asks for a sync on the hub unless, as Argo CD has it, one is asked for or runs.
func (s *syncs) ask(t *testing.T) {
	if at(s.agent.hub.get(t, s.name), "operation") == nil {
		s.agent.sync(t, s.name)
		s.asked++
	}
}

// once checks that all syncs have run, each once. Argo CD numbers those that have ended
// well, and forgets the oldest.
func (s *syncs) once(ctx context.Context) error {
	ran := func(app *unstructured.Unstructured) error {
		var last any
		if history, _ := at(app, "status", "history").([]any); len(history) > 0 {
			last = history[len(history)-1].(fields)["id"]
		}
		return equal(
			[]any{int64(s.asked - 1), "Succeeded", nil},
			[]any{last, at(app, "status", "operationState", "phase"), at(app, "operation")},
		)
	}
	return all(s.agent.hub.is(s.name, ran), s.agent.spoke.is(s.name, ran))(ctx)
}
