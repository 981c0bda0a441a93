package real

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
)

// An estate is what a disaster of the hub must leave alone: on the spoke of edge-1 three
// Applications that Argo CD has deployed, one of them with its finalizer, and on that of
// edge-2 twelve that nobody deploys, and no others.
type estate struct {
	*world
	one, two *agent
	kept     map[string]string // what is on the spokes, see belongings
}

// deployedNames are the Applications of the estate on edge-1.
func deployedNames() []string { return []string{"vault", "ledger", "mill"} }

// plainCount is how many Applications the estate has on edge-2: so few that five are the
// most whose absence is taken for deletions that were missed.
const plainCount = 12

func plainName(i int) string { return fmt.Sprintf("plain-%02d", i) }

// plainNames returns the names of those from one on, and before another.
func plainNames(from, to int) (names []string) {
	for i := from; i < to; i++ {
		names = append(names, plainName(i))
	}
	return names
}

// estate brings the estate about, or what is missing of it, and waits until it is whole.
func (w *world) estate(t *testing.T) *estate {
	t.Helper()
	e := &estate{world: w, one: w.agent(t, "edge-1"), two: w.agent(t, "edge-2")}
	e.deploy(t)
	e.plant(t)
	within(t, time.Minute, w.inStep)
	for _, name := range deployedNames() {
		within(t, time.Minute, all(e.one.hub.is(name, healthy), deployed(e.one.spoke.Cluster, name)))
	}
	e.count(t)
	return e
}

func (e *estate) deploy(t *testing.T) {
	there, err := e.one.hub.all(t.Context())
	require.NoError(t, err)
	for _, name := range deployedNames() {
		if there[name] != nil {
			continue
		}
		app := application(name, spec(e.one.name, e.repo(t, name).URL(), name))
		if name == "vault" {
			app = cascading(app)
		}
		e.one.hub.create(t, app)
	}
}

// plant makes the hub's Applications of edge-2 those of the estate.
func (e *estate) plant(t *testing.T) {
	there, err := e.two.hub.all(t.Context())
	require.NoError(t, err)
	for i := range plainCount {
		name := plainName(i)
		if there[name] == nil {
			e.two.hub.create(t, application(name, spec(e.two.name, "https://git.example.com/plain.git", name)))
		}
		delete(there, name)
	}
	for name := range there {
		e.two.hub.remove(t, name)
	}
	if len(there) > 0 {
		e.fleet = false
	}
}

// count takes note of what is on the spokes.
func (e *estate) count(t *testing.T) {
	t.Helper()
	kept, err := e.belongings(t.Context())
	require.NoError(t, err)
	require.Greater(t, len(kept), plainCount)
	e.kept = kept
}

// belongings returns the UIDs of all copies on the spokes, and of the Deployments and the
// settings that Argo CD has deployed.
func (w *world) belongings(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	for _, spoke := range []string{"spoke-1", "spoke-2"} {
		for _, resource := range []schema.GroupVersionResource{
			stack.Applications(), {Group: "apps", Version: "v1", Resource: "deployments"}, {Version: "v1", Resource: "configmaps"},
		} {
			list, err := w.stack.Cluster(spoke).Dynamic().Resource(resource).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			for _, o := range list.Items {
				if resource.Resource == "configmaps" && o.GetName() != "settings" {
					continue
				}
				state := string(o.GetUID())
				if o.GetDeletionTimestamp() != nil {
					state += ", which is being deleted"
				}
				out[fmt.Sprintf("%s: %s %s/%s", spoke, resource.Resource, o.GetNamespace(), o.GetName())] = state
			}
		}
	}
	return out, nil
}

// intact checks that everything that was counted is what it was: nothing is gone, made anew
// or being deleted.
func (e *estate) intact(ctx context.Context) error {
	now, err := e.belongings(ctx)
	for _, name := range slices.Sorted(maps.Keys(e.kept)) {
		if is := now[name]; is != e.kept[name] {
			err = errors.Join(err, fmt.Errorf("%s was %s, and is %q", name, e.kept[name], is))
		}
	}
	return err
}

// stays expects the estate to stay intact for a time in which a mistake would show.
func (e *estate) stays(t *testing.T, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		require.NoError(t, e.intact(t.Context()))
	}
}

// names returns the names of all copies that an agent has.
func (a *agent) names(t *testing.T) []string {
	t.Helper()
	there, err := a.spoke.all(t.Context())
	require.NoError(t, err)
	return slices.Sorted(maps.Keys(there))
}

// holds returns a check that the copies of Applications of these names are what an agent
// holds, and no others, as the principal lists them. What is none is named with its kind.
func (w *world) holds(a *agent, names ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		desk, err := admin.NewClient(w.desk())
		if err != nil {
			return err
		}
		said, err := desk.Agent(ctx, a.name)
		if err != nil {
			return err
		}
		var held, want []string
		for _, h := range said.Held {
			held = append(held, h.Side+" "+h.Key)
		}
		for _, name := range names {
			if !strings.Contains(name, "/") {
				name = "Application/" + name
			}
			want = append(want, "spoke "+name)
		}
		return equal(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(held)))
	}
}

// A mark is a place in a program's log.
type mark struct {
	*program
	from int
}

// mark marks the end of the program's log.
func (p *program) mark(t *testing.T) mark {
	log, err := os.ReadFile(p.Log())
	require.NoError(t, err)
	return mark{p, len(log)}
}

// since returns the lines behind the mark that have all the words.
func (m mark) since(words ...string) (lines []string, err error) {
	log, err := os.ReadFile(m.Log())
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(log[m.from:])) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// says returns a check that there is a line behind the mark that has all the words.
func (m mark) says(words ...string) func(context.Context) error {
	return func(context.Context) error {
		lines, err := m.since(words...)
		if err == nil && len(lines) == 0 {
			err = fmt.Errorf("%s has not said %q", m.Name(), words)
		}
		return err
	}
}

// heldNone expects the agent not to have held anything.
func (m mark) heldNone(t *testing.T) {
	t.Helper()
	lines, err := m.since("deletions are held")
	require.NoError(t, err)
	require.Empty(t, lines)
}

// stopPrincipal stops the principal, and returns what starts it again.
func (w *world) stopPrincipal(t *testing.T) (start func()) {
	t.Helper()
	w.principal.stop(t)
	return func() { t.Helper(); require.NoError(t, w.principal.Start(t.Context())) }
}

// A plan is the manifests of a place, as somebody keeps them in Git.
type plan []*unstructured.Unstructured

// plan returns the manifests of what is at p.
func (p place) plan(t *testing.T) (out plan) {
	t.Helper()
	there, err := p.all(t.Context())
	require.NoError(t, err)
	for _, name := range slices.Sorted(maps.Keys(there)) {
		app := application(name, at(there[name], "spec").(fields))
		app.SetLabels(there[name].GetLabels())
		app.SetAnnotations(there[name].GetAnnotations())
		app.SetFinalizers(there[name].GetFinalizers())
		out = append(out, app)
	}
	return out
}

// apply creates everything in the plan.
func (p place) apply(t *testing.T, manifests plan) {
	t.Helper()
	for _, app := range manifests {
		p.create(t, app.DeepCopy())
	}
}

// wipe deletes everything at p, and what would wait for somebody at once.
func (p place) wipe(t *testing.T) {
	t.Helper()
	there, err := p.all(t.Context())
	require.NoError(t, err)
	for name, app := range there {
		if len(app.GetFinalizers()) > 0 {
			p.patch(t, name, fields{"metadata": fields{"finalizers": nil}})
		}
		p.remove(t, name)
	}
	within(t, patience, func(ctx context.Context) error {
		left, err := p.all(ctx)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%d Applications are left", len(left))
		}
		return err
	})
}

func (w *world) namespaces() dynamic.ResourceInterface {
	return w.hub.Dynamic().Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
}

// sources returns a check that each copy of the agent names its original of now, and the
// hub as the hub names itself.
func (a *agent) sources(identity string) func(context.Context) error {
	return func(ctx context.Context) error {
		hub, err := a.hub.all(ctx)
		if err != nil {
			return err
		}
		spoke, err := a.spoke.all(ctx)
		if err != nil {
			return err
		}
		for name, app := range hub {
			if spoke[name] == nil {
				return fmt.Errorf("%s has no copy of %s", a.name, name)
			}
			marks := spoke[name].GetAnnotations()
			if err := equal([2]string{string(app.GetUID()), identity},
				[2]string{marks["argocd.argoproj.io/source-uid"], marks["argocd.argoproj.io/principal-uid"]}); err != nil {
				return fmt.Errorf("%s of %s: %w", name, a.name, err)
			}
		}
		return nil
	}
}

// noted returns a patch that writes a note into a spec, where nothing is deployed from.
func noted(note string) fields {
	return fields{"spec": fields{"info": []any{fields{"name": "note", "value": note}}}}
}

// notes returns a check that a spec has that note; "" is none.
func notes(note string) func(*unstructured.Unstructured) error {
	if note == "" {
		return has(nil, "spec", "info")
	}
	return has([]any{fields{"name": "note", "value": note}}, "spec", "info")
}
