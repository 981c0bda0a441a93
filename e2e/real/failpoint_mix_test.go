package real

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

	before census // without those that come and go
	gone   order

	made    int      // changes
	created int      // Applications that come and go
	there   []string // those of them that are there, the oldest first
	syncs   syncs
}

// The Applications of a mix that stay: one that is synced by itself, and one that is when
// it is asked for.
const (
	mixKept = "mix-kept"
	mixRun  = "mix-run"
)

// mixSize is how many others there are at first: of so many, those that are deleted while
// the principal is dying, and whose deletion nobody sees, are few enough for an agent to
// take it for what it is.
const mixSize = 40

func newMix(t *testing.T, w *world) *mix {
	m := &mix{agent: w.agent(t, "edge-1"), repo: w.repo(t, "mix"), gone: order{}}
	m.agent.hub.create(t, cascading(application(mixKept, spec(m.agent.name, m.repo.URL(), mixKept))))
	m.syncs = newSyncs(t, m.agent, mixRun, m.repo)
	within(t, time.Minute, all(m.agent.hub.is(mixKept, healthy), m.syncs.once))
	m.before = w.census(t)
	for range mixSize {
		m.create(t)
	}
	within(t, time.Minute, w.inStep)
	return m
}

// change makes the next change.
func (m *mix) change(t *testing.T) {
	t.Helper()
	if len(m.bag) == 0 {
		m.bag = []func(*testing.T){m.create, m.create, m.renew, m.edit, m.remove, m.status, m.drift, m.lose, m.syncs.ask}
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
	app := m.application(name)
	if m.created%2 == 0 {
		app = cascading(app)
	}
	m.agent.hub.create(t, app)
	m.created++
	m.there = append(m.there, name)
}

// application returns one that deploys nothing.
func (m *mix) application(name string) *unstructured.Unstructured {
	s := spec(m.agent.name, m.repo.URL(), fmt.Sprint("mix-", m.made))
	delete(s["syncPolicy"].(fields), "automated")
	return application(name, s)
}

// renew deletes, on the hub, one that does not cascade, and creates another of its name. It
// is one of the last that are to go: a copy that has missed two lives of its name goes for
// being absent.
func (m *mix) renew(t *testing.T) {
	for _, name := range slices.Backward(m.there) {
		if len(m.agent.hub.get(t, name).GetFinalizers()) == 0 {
			m.agent.hub.remove(t, name)
			m.agent.hub.create(t, m.application(name))
			return
		}
	}
}

// lose deletes a copy on the spoke, if it is there yet; it is to come back.
func (m *mix) lose(t *testing.T) {
	if len(m.there) == 0 {
		return
	}
	name := m.there[m.rnd.IntN(len(m.there))]
	err := m.agent.spoke.objects().Delete(t.Context(), name, metav1.DeleteOptions{})
	require.True(t, err == nil || apierrors.IsNotFound(err), "%v", err)
}

// remove deletes, on the hub, the oldest that is to go.
func (m *mix) remove(t *testing.T) {
	if len(m.there) == 0 {
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

// settle expects that all has come to what it should be, and to rest.
func (m *mix) settle(t *testing.T, w *world) {
	t.Helper()
	within(t, time.Minute, all(w.inStep, m.syncs.once, m.left))
	w.silent(t, 0)
	w.unharmed(t, m.before, m.gone)
	require.NoError(t, m.syncs.once(t.Context()))
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
