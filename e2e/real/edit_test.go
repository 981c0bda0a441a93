package real

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

// Keys of labels and annotations: the owner's, and one that somebody else writes.
const (
	ownKey     = "example.com/owner"
	foreignKey = "example.com/foreign"
)

// edits: what the owner sets, changes and removes is set, changed and removed on the copy,
// and what others have written there stays.
func edits(t *testing.T, w *world) {
	a := w.agent(t, "edge-1")
	repo := w.repo(t, "edited")
	app := application("edited", spec(a.name, repo.URL(), "edited"))
	app.SetLabels(map[string]string{ownKey: "one", "example.com/team": "blue"})
	app.SetAnnotations(map[string]string{ownKey: "one", "example.com/note": "first"})
	app.Object["spec"].(fields)["ignoreDifferences"] = []any{fields{"group": "apps", "kind": "Deployment", "jsonPointers": []any{"/spec/replicas"}}}
	a.hub.create(t, app)
	within(t, time.Minute, a.hub.is("edited", healthy))

	a.spoke.patch(t, "edited", fields{"metadata": fields{
		"labels": fields{foreignKey: "kept", ownKey: "vandal"}, "annotations": fields{foreignKey: "kept", ownKey: "vandal"},
	}})
	within(t, patience, a.spoke.is("edited", meta(ownKey, "one", "one"), meta(foreignKey, "kept", "kept")))

	changed := a.hub.patch(t, "edited", fields{
		"metadata": fields{
			"labels":      fields{ownKey: "two", "example.com/team": nil, "example.com/new": "yes"},
			"annotations": fields{ownKey: "two", "example.com/note": nil, "example.com/new": "yes"},
		},
		"spec": fields{"ignoreDifferences": nil, "revisionHistoryLimit": 3, "info": []any{fields{"name": "runbook", "value": "https://example.com"}}},
	})
	within(t, patience, a.spoke.is("edited",
		meta(ownKey, "two", "two"), meta("example.com/team", "", ""), meta("example.com/note", "", ""),
		meta("example.com/new", "yes", "yes"), meta(foreignKey, "kept", "kept"), func(copied *unstructured.Unstructured) error {
			return equal(onSpoke(changed), at(copied, "spec"))
		}))
	require.NotContains(t, a.hub.get(t, "edited").GetLabels(), foreignKey)
	within(t, time.Minute, a.hub.is("edited", healthy))
	unknownFields(t, w)
}

// meta returns a check of one label and one annotation of a key; "" is none.
func meta(key, label, annotation string) func(*unstructured.Unstructured) error {
	return func(app *unstructured.Unstructured) error {
		return equal([2]string{label, annotation}, [2]string{app.GetLabels()[key], app.GetAnnotations()[key]})
	}
}

// unknownFields: where the resource definition lets them stand, fields that no code of
// ours knows pass untouched, in both directions, and numbers stay what they are.
func unknownFields(t *testing.T, w *world) {
	a := w.agent(t, "edge-2")
	values := fields{
		"future": fields{"list": []any{int64(1), 2.5, "three", true, fields{}}, "empty": fields{}, "big": int64(1) << 53},
		"text":   "line\nbreak <&> \u00e9 \U0001F680",
	}
	s := spec(a.name, "https://charts.example.com", "unknown")
	s["source"].(fields)["helm"] = fields{"valuesObject": values}
	a.hub.create(t, application("unknown", s))
	within(t, patience, a.spoke.is("unknown", has(values, "spec", "source", "helm", "valuesObject")))

	a.hub.patch(t, "unknown", fields{"spec": fields{"source": fields{"helm": fields{"valuesObject": fields{"future": nil, "later": fields{"x": []any{}}}}}}})
	delete(values, "future")
	values["later"] = fields{"x": []any{}}
	within(t, patience, a.spoke.is("unknown", has(values, "spec", "source", "helm", "valuesObject")))
}

// drift: what somebody changes on a copy is undone, with the link up, with the link cut, and
// after the agent was restarted without it.
func drift(t *testing.T, w *world) {
	a := w.agent(t, "edge-1")
	s := spec(a.name, w.repo(t, "drift").URL(), "drift")
	a.hub.create(t, application("drift", s))
	within(t, time.Minute, a.hub.is("drift", healthy))
	want := onSpoke(a.hub.get(t, "drift"))
	reverted := func(when string) {
		t.Helper()
		a.spoke.patch(t, "drift", fields{"spec": fields{"source": fields{"targetRevision": "vandal"}, "revisionHistoryLimit": 1}})
		took := within(t, patience, a.spoke.is("drift", has(want, "spec")))
		t.Logf("reverted %s in %.2f s", when, took.Seconds())
	}
	reverted("with the link up")
	a.line.Set(netfault.Cut)
	reverted("with the link cut")
	a.stop(t)
	require.NoError(t, a.Start(t.Context()), "the agent gets ready without the principal")
	reverted("after a restart with the link cut")

	uid := a.spoke.get(t, "drift").GetUID()
	a.spoke.remove(t, "drift")
	within(t, patience, a.spoke.is("drift", has(want, "spec"), func(app *unstructured.Unstructured) error {
		if app.GetUID() == uid {
			return equal("another UID", uid)
		}
		return nil
	}))
	a.line.Set(netfault.Healthy)
	within(t, time.Minute, a.hub.is("drift", healthy))
	a.sameStatus(t, "drift")
}
