package kubestore

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func pass(request) *metav1.Status { return nil }

// older answers as an API server does that cannot begin a watch with a list.
func older(then speech) speech {
	return func(r request) *metav1.Status {
		if r.initial {
			return failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden")
		}
		return then(r)
	}
}

func TestScenario28_WatchExpiredAndTheListMissesADeletedObject(t *testing.T) {
	c := startCluster(t)
	for name, speaks := range map[string]func(speech) speech{
		"streaming lists": func(f speech) speech { return f },
		"plain lists":     older,
	} {
		t.Run(name, func(t *testing.T) {
			s, p := c.store(t)
			u := users{t, c.Dynamic(), p}
			ns := c.namespace()
			p.set(speaks(pass))
			seen := events(t, s, ns)
			stored := map[string]resource.Object{}
			for _, name := range []string{"deleted", "kept", "edited", "successor"} {
				o, err := s.Write(t.Context(), app(ns, name))
				require.NoError(t, err)
				require.Equal(t, &o, (<-seen).Put)
				stored[name] = o
			}

			u.unseen(app(ns, "").Key, speaks, func() {
				u.Delete(stored["deleted"].Key)
				u.Delete(stored["successor"].Key)
				u.Edit(stored["successor"].Key, func(o *resource.Object) { o.Parts[resource.Spec] = spec })
				u.Edit(stored["edited"].Key, func(o *resource.Object) { o.Parts[resource.Meta] = label("blue") })
				u.Edit(app(ns, "new").Key, func(o *resource.Object) { o.Parts[resource.Spec] = spec })
			})

			gone, put := map[string]backend.Gone{}, map[string]resource.Object{}
			for range 5 {
				switch e := <-seen; {
				case e.Gone != nil:
					require.NotContains(t, put, e.Gone.Key.Name, "the successor comes after")
					gone[e.Gone.Key.Name] = *e.Gone
				case e.Put != nil:
					put[e.Put.Key.Name] = *e.Put
				}
			}
			for _, name := range []string{"deleted", "successor"} {
				require.Equal(t, backend.Gone{Key: stored[name].Key, UID: stored[name].UID}, gone[name], "it is gone, and nobody saw it")
			}
			require.Len(t, put, 3)
			require.NotEqual(t, stored["successor"].UID, put["successor"].UID)
			require.Equal(t, label("blue"), put["edited"].Parts[resource.Meta])

			u.Delete(put["new"].Key)
			require.Equal(t, &backend.Gone{Key: put["new"].Key, UID: put["new"].UID, Seen: true}, (<-seen).Gone)
			require.Empty(t, seen, "what has not changed is not shown again")
		})
	}
}

func TestScenario27_EditsOfLabelsAndAnnotationsWhileAway(t *testing.T) {
	c := startCluster(t)
	s, p := c.store(t)
	u := users{t, c.Dynamic(), p}
	ns := c.namespace()
	seen := events(t, s, ns)
	labelled, err := s.Write(t.Context(), app(ns, "labelled"))
	require.NoError(t, err)
	annotated, err := s.Write(t.Context(), app(ns, "annotated"))
	require.NoError(t, err)
	<-seen
	<-seen
	p.lose(blind)
	note := resource.Metadata{Annotations: map[string]string{"example.com/note": "x"}}.Text()
	u.Edit(labelled.Key, func(o *resource.Object) { o.Parts[resource.Meta] = label("blue") })
	u.Edit(annotated.Key, func(o *resource.Object) { o.Parts[resource.Meta] = note })
	p.set(nil)
	got := map[resource.Key]string{}
	for range 2 {
		o := (<-seen).Put
		require.Equal(t, spec, o.Parts[resource.Spec])
		got[o.Key] = o.Parts[resource.Meta]
	}
	require.Equal(t, map[resource.Key]string{labelled.Key: label("blue"), annotated.Key: note}, got)
}
