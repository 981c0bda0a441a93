package demo

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// ended returns a world as the script leaves it, made by hand.
func ended(t *testing.T) *world {
	w := &world{hub: memstore.New(memstore.Config{Name: "hub"})}
	for _, a := range []backend.Agent{{Name: "edge-1"}, {Name: "edge-2"}, {Name: "plant", Mode: resource.Autonomous}} {
		w.spokes = append(w.spokes, &spoke{Agent: a, cluster: memstore.New(memstore.Config{Name: a.Name})})
	}
	for i, s := range w.managed() {
		for _, name := range []string{"guestbook", "metrics", []string{"search", "shop"}[i]} {
			require.NoError(t, w.createOnHub(s, name))
		}
	}
	revise(w.hub, onHub(w.spokes[0], "guestbook"), "release-50")
	revise(w.hub, onHub(w.spokes[1], "shop"), "release-2")
	for _, name := range []string{"gateway", "recorder"} {
		require.NoError(t, createOnSpoke(w.autonomous(), name))
	}
	revise(w.autonomous().cluster, onSpoke("gateway"), "release-3")
	require.NoError(t, createLocal(w.lost()))
	for k, o := range w.hub.All() {
		s := w.spokes[0]
		if k.Namespace != s.Name {
			s = w.spokes[1]
		}
		copied(s.cluster, onSpoke(k.Name), o, hubIdentity, "server", "https://kubernetes.default.svc", "default")
	}
	for k, o := range w.autonomous().cluster.All() {
		project := fields(o.Parts[resource.Spec])["project"].(string)
		copied(w.hub, onHub(w.autonomous(), k.Name), o, "plant", "name", "plant", "plant-"+project)
	}
	for _, s := range w.spokes {
		for k := range s.cluster.All() {
			s.cluster.Edit(k, controller{}.reconcile)
			if _, ok := w.hub.Get(onHub(s, k.Name)); ok {
				w.hub.Edit(onHub(s, k.Name), func(o *resource.Object) {
					c, _ := s.cluster.Get(k)
					o.Parts[resource.Status] = c.Parts[resource.Status]
				})
			}
		}
	}
	return w
}

// copied makes the copy of an original.
func copied(to *memstore.Store, k resource.Key, o resource.Object, by, field, value, project string) {
	spec := fields(o.Parts[resource.Spec])
	spec["project"] = project
	spec["destination"] = map[string]any{field: value, "namespace": below(spec, "destination")["namespace"]}
	o.Parts[resource.Spec] = resource.Canonical(spec)
	to.Edit(k, func(c *resource.Object) {
		c.Parts, c.Origin = o.Parts, resource.Origin{UID: o.UID, By: by}
	})
}

func TestVerdict(t *testing.T) {
	v, err := ended(t).judge(t.Context())
	require.NoError(t, err)
	require.Empty(t, v.differences)
	require.Equal(t, 4+3+2, v.objects)

	for name, c := range map[string]struct {
		spoil func(*world)
		want  string
	}{
		"lost on a cluster": {
			func(w *world) { w.spokes[1].cluster.Lose(onSpoke("metrics")) },
			"edge-2: Application/argocd/metrics is not there",
		},
		"lost on the control plane": {
			func(w *world) { w.hub.Lose(onHub(w.autonomous(), "gateway")) },
			"control plane: Application/plant/gateway is not there",
		},
		"left over on a cluster": {
			func(w *world) { require.NoError(t, createLocal(w.autonomous())) },
			"plant: Application/argocd/local-debug is there, and should not be",
		},
		"left over on the control plane": {
			func(w *world) { require.NoError(t, w.createOnHub(w.lost(), "shop")) },
			"control plane: Application/edge-1/shop is there, and should not be",
		},
		"in nobody's namespace": {
			func(w *world) {
				w.hub.Edit(onHub(&spoke{}, "x"), func(o *resource.Object) { o.Parts[resource.Spec] = "{}" })
			},
			"control plane: Application/x is there, and should not be",
		},
		"drift": {
			func(w *world) { revise(w.spokes[1].cluster, onSpoke("guestbook"), "hacked") },
			"edge-2: revision of Application/argocd/guestbook is not what it should be",
		},
		"both sides wrong, and equal": {
			func(w *world) {
				revise(w.hub, onHub(w.lost(), "guestbook"), "release-49")
				revise(w.lost().cluster, onSpoke("guestbook"), "release-49")
			},
			"control plane: revision of Application/edge-1/guestbook is not what it should be",
		},
		"label": {
			func(w *world) { label(w.lost().cluster, onSpoke("search"), "team", "lead") },
			"edge-1: Application/search: label: hub has team=web, spoke has team=lead",
		},
		"another project": {
			func(w *world) {
				w.hub.Edit(onHub(w.autonomous(), "gateway"), func(o *resource.Object) {
					o.Parts[resource.Spec] = strings.Replace(o.Parts[resource.Spec], "plant-default", "default", 1)
				})
			},
			"control plane: project or destination of Application/plant/gateway is not what it should be",
		},
		"status did not come back": {
			func(w *world) {
				w.hub.Edit(onHub(w.lost(), "search"), func(o *resource.Object) { o.Parts[resource.Status] = "" })
			},
			"control plane: health of Application/edge-1/search is not what it should be",
		},
		"mark of another": {
			func(w *world) {
				w.lost().cluster.Edit(onSpoke("search"), func(o *resource.Object) { o.Origin.UID = "x" })
			},
			"edge-1: Application/search: origin: ",
		},
		"what is a user's own is taken over": {
			func(w *world) {
				w.lost().cluster.Edit(onSpoke("local-debug"), func(o *resource.Object) { o.Origin.UID = "x" })
			},
			"edge-1: local-debug has become somebody's copy",
		},
		"not gone yet": {
			func(w *world) { w.hub.Delete(onHub(w.lost(), "search")) },
			"control plane: existence of Application/edge-1/search is not what it should be",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := ended(t)
			c.spoil(w)
			v, err := w.judge(t.Context())
			require.NoError(t, err)
			require.Contains(t, strings.Join(v.differences, "\n"), c.want)
			require.Equal(t, 4+3+2, v.objects)
		})
	}
}
