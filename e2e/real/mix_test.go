package real

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

// A mix makes changes of all kinds on both sides, in an order that a seed decides. Some
// Applications stay, with what they have deployed; others come and go.
type mix struct {
	agent *agent
	repo  *stack.GitRepo
	rnd   *rand.Rand
	bag   []func(*testing.T) // what comes next: each kind of change once, before any comes again

	before     census
	gone       order
	made       int      // changes
	created    int      // Applications that come and go
	there      []string // those of them that are there, the oldest first
	operations int      // that were asked for
}

// The Applications of a mix that stay: one that is synced by itself, and one that is when
// it is asked for.
const (
	mixKept = "mix-kept"
	mixRun  = "mix-run"
)

func newMix(t *testing.T, w *world) *mix {
	m := &mix{agent: w.agent(t, "edge-1"), repo: w.repo(t, "mix"), gone: order{}}
	m.agent.hub.create(t, cascading(application(mixKept, spec(m.agent.name, m.repo.URL(), mixKept))))
	manual := spec(m.agent.name, m.repo.URL(), mixRun)
	delete(manual["syncPolicy"].(fields), "automated")
	m.agent.hub.create(t, application(mixRun, manual))
	within(t, time.Minute, all(m.agent.hub.is(mixKept, healthy), m.agent.hub.is(mixRun, has("OutOfSync", "status", "sync", "status"))))
	m.operate(t)
	within(t, time.Minute, m.ran)
	within(t, patience, w.inStep)
	m.before = w.census(t)
	return m
}

// change makes the next change.
func (m *mix) change(t *testing.T) {
	t.Helper()
	if len(m.bag) == 0 {
		m.bag = []func(*testing.T){m.create, m.create, m.edit, m.remove, m.status, m.drift, m.operate}
		m.rnd.Shuffle(len(m.bag), func(i, j int) { m.bag[i], m.bag[j] = m.bag[j], m.bag[i] })
	}
	next := m.bag[0]
	m.bag = m.bag[1:]
	m.made++
	next(t)
}

// create creates an Application that deploys nothing; every other one is to be deleted in
// cascade.
func (m *mix) create(t *testing.T) {
	name := fmt.Sprint("mix-", m.created)
	s := spec(m.agent.name, m.repo.URL(), name)
	delete(s["syncPolicy"].(fields), "automated")
	app := application(name, s)
	if m.created%2 == 0 {
		app = cascading(app)
	}
	m.agent.hub.create(t, app)
	m.created++
	m.there = append(m.there, name)
}

// remove deletes, on the hub, the oldest that is to go.
func (m *mix) remove(t *testing.T) {
	if len(m.there) < 3 {
		return
	}
	m.gone[m.there[0]] = false
	m.agent.hub.remove(t, m.there[0])
	m.there = m.there[1:]
}

// edit changes a spec and a label on the hub.
func (m *mix) edit(t *testing.T) {
	value := fmt.Sprint(m.made)
	m.agent.hub.patch(t, mixKept, fields{
		"metadata": fields{"labels": fields{ownKey: value}},
		"spec":     fields{"info": []any{fields{"name": "change", "value": value}}},
	})
}

// drift changes a spec on the spoke, which is to be undone.
func (m *mix) drift(t *testing.T) {
	m.agent.spoke.patch(t, mixKept, fields{"spec": fields{"revisionHistoryLimit": m.made}})
}

// status has Argo CD look at an Application, and write a new status.
func (m *mix) status(t *testing.T) {
	m.agent.spoke.patch(t, mixKept, annotated("argocd.argoproj.io/refresh", "normal"))
}

// operate asks for a sync on the hub, unless one is asked for or runs, as Argo CD has it.
func (m *mix) operate(t *testing.T) {
	app := m.agent.hub.get(t, mixRun)
	if at(app, "operation") != nil {
		return
	}
	m.agent.sync(t, mixRun)
	m.operations++
}

// ran checks that all operations have run, each once. Argo CD numbers those that have ended
// well, and forgets the oldest.
func (m *mix) ran(ctx context.Context) error {
	once := func(app *unstructured.Unstructured) error {
		history, _ := at(app, "status", "history").([]any)
		var last any
		if len(history) > 0 {
			last = history[len(history)-1].(fields)["id"]
		}
		return equal([]any{int64(m.operations - 1), "Succeeded", nil}, []any{last, at(app, "status", "operationState", "phase"), at(app, "operation")})
	}
	return all(m.agent.hub.is(mixRun, once), m.agent.spoke.is(mixRun, once))(ctx)
}

// settle expects that all has come to what it should be, and to rest.
func (m *mix) settle(t *testing.T, w *world) {
	t.Helper()
	within(t, patience, all(w.inStep, m.ran, m.left))
	w.silent(t, 0)
	w.unharmed(t, m.before, m.gone)
	require.NoError(t, m.ran(t.Context()))
	require.NotZero(t, w.verified(t))
}

// left checks that of the Applications that come and go those are there, on both sides, that
// were not deleted.
func (m *mix) left(ctx context.Context) error {
	for _, p := range []place{m.agent.hub, m.agent.spoke} {
		apps, err := p.all(ctx)
		if err != nil {
			return err
		}
		for _, name := range m.there {
			if apps[name] == nil {
				return fmt.Errorf("%s is not on %s", name, p.Name())
			}
		}
		for name := range m.gone {
			if apps[name] != nil {
				return fmt.Errorf("%s is still on %s", name, p.Name())
			}
		}
	}
	return nil
}
