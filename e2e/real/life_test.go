package real

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A life is that of some Applications which are changed, created and deleted on both sides
// while something else happens. Those on the first spoke deploy something there; on the
// second the story itself writes the status.
type life struct {
	one, two *agent
	name     string
	changes  int
	before   census
	gone     order // what was, or will be, ordered to go
}

// newLife creates the Applications, and returns once they are deployed and in step.
func newLife(t *testing.T, w *world, name string) *life {
	l := &life{one: w.agent(t, "edge-1"), two: w.agent(t, "edge-2"), name: name}
	repo := w.repo(t, name)
	for _, app := range []string{"kept", "orphaned"} {
		l.one.hub.create(t, application(l.app(app), spec(l.one.name, repo.URL(), l.app(app))))
	}
	l.one.hub.create(t, cascading(application(l.app("cascaded"), spec(l.one.name, repo.URL(), l.app("cascaded")))))
	l.two.hub.create(t, application(name, spec(l.two.name, "https://git.example.com/life.git", name)))
	for _, app := range []string{"kept", "orphaned", "cascaded"} {
		within(t, time.Minute, l.one.hub.is(l.app(app), healthy))
	}
	within(t, patience, all(l.two.spoke.is(name), w.inStep))
	l.before, l.gone = w.census(t), order{l.app("orphaned"): false, l.app("cascaded"): true}
	return l
}

func (l *life) app(name string) string { return l.name + "-" + name }

// change changes a spec on the hub, and a status on a spoke.
func (l *life) change(t *testing.T) {
	l.changes++
	l.one.hub.patch(t, l.app("kept"), fields{"spec": fields{"info": l.info()}})
	l.two.spoke.patch(t, l.name, fields{"status": status(l.changes)})
}

func (l *life) info() []any { return []any{fields{"name": "change", "value": fmt.Sprint(l.changes)}} }

// order creates an Application on the hub, and deletes two: one with all that it has
// deployed, and one without.
func (l *life) order(t *testing.T) {
	repoURL := at(l.one.hub.get(t, l.app("kept")), "spec", "source", "repoURL").(string)
	l.one.hub.create(t, application(l.app("created"), spec(l.one.name, repoURL, l.app("created"))))
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
		l.two.hub.is(l.name, has(revision(l.changes), "status", "sync", "revision")),
	)(ctx)
}

// unharmed expects that nothing is gone or another but what was ordered.
func (l *life) unharmed(t *testing.T, w *world) {
	t.Helper()
	require.NotEmpty(t, l.before)
	w.unharmed(t, l.before, l.gone)
}
