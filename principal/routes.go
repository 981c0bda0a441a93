package principal

import (
	"context"
	"slices"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/project"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// routed shows of a hub's store what concerns one agent. A managed agent is told of the
// projects that permit something in its cluster, and of the repositories of these; what
// ceases to concern it is shown as deleted, because somebody has changed it.
type routed struct {
	backend.Store
	place Placement
}

// Watch implements backend.Store.
func (s routed) Watch(ctx context.Context, scope backend.Scope, f func(backend.Event) error) error {
	if s.place.Mode != resource.Managed {
		return s.Store.Watch(ctx, scope, f)
	}
	r := routes{place: s.place, projects: map[string]reach{}, secrets: map[resource.Key]resource.Object{}, shown: map[resource.Key]string{}}
	return s.Store.Watch(ctx, scope, func(e backend.Event) error {
		for _, e := range r.route(e) {
			if err := f(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// routes is what one watch knows of the projects of a hub, of which not all concern the
// agent, and of their repositories.
type routes struct {
	place    Placement
	projects map[string]reach
	secrets  map[resource.Key]resource.Object // those of repositories, whether they concern the agent or not
	shown    map[resource.Key]string          // UIDs of the projects and secrets that are shown
}

// A reach says whether a project concerns the agent. The zero reach is that of no project.
type reach uint8

const (
	elsewhere reach = iota
	here
	unsaid // it is excluded, and cannot be read: all stays as it is
)

// route returns an event as the agent is to see it: as it is, or others in its place.
func (r *routes) route(e backend.Event) []backend.Event {
	switch {
	case e.Put != nil && e.Put.Key.Kind == resource.Project:
		return r.project(*e.Put)
	case e.Put != nil && e.Put.Key.Kind == resource.Secret:
		r.secrets[e.Put.Key] = *e.Put
		return r.secret(*e.Put, true)
	case e.Gone != nil && e.Gone.Key.Kind == resource.Project:
		out := r.hide(e.Gone.Key, e.Gone.Seen)
		delete(r.projects, e.Gone.Key.Name)
		return append(out, r.repositories(e.Gone.Key.Name, e.Gone.Seen)...)
	case e.Gone != nil && e.Gone.Key.Kind == resource.Secret:
		delete(r.secrets, e.Gone.Key)
		return r.hide(e.Gone.Key, e.Gone.Seen)
	}
	return []backend.Event{e}
}

func (r *routes) project(o resource.Object) []backend.Event {
	is := r.reach(o)
	r.projects[o.Key.Name] = is
	var out []backend.Event
	if is == elsewhere {
		out = r.hide(o.Key, true)
	} else {
		out = r.show(o)
	}
	return append(out, r.repositories(o.Key.Name, true)...)
}

func (r *routes) reach(o resource.Object) reach {
	v, err := resource.Decode(o.Parts[resource.Spec])
	spec, ok := v.(map[string]any)
	switch {
	case backend.Exclude(o).Excluded:
		return unsaid
	case err == nil && ok && project.Concerns(spec, r.place.agent()):
		return here
	}
	return elsewhere
}

// repositories looks again at the secrets of a project. seen says whether that was seen to
// change, or is merely found otherwise.
func (r *routes) repositories(name string, seen bool) (out []backend.Event) {
	var of []resource.Object
	for _, o := range r.secrets {
		if r.owner(o) == name {
			of = append(of, o)
		}
	}
	slices.SortFunc(of, func(a, b resource.Object) int { return a.Key.Compare(b.Key) })
	for _, o := range of {
		out = append(out, r.secret(o, seen)...)
	}
	return out
}

// owner returns the project that a repository is of, "" if it is of none.
func (r *routes) owner(o resource.Object) string {
	v, _ := resource.Decode(o.Parts[resource.Spec])
	data, _ := v.(map[string]any)
	name, _ := project.OfRepository(data)
	return name
}

func (r *routes) secret(o resource.Object, seen bool) []backend.Event {
	of := r.owner(o)
	switch {
	case backend.Exclude(o).Excluded, of == "" && r.place.Unscoped, of != "" && r.projects[of] == here:
		return r.show(o)
	case of != "" && r.projects[of] == unsaid:
		o.Excluded, o.Parts = true, resource.Parts{}
		return r.show(o)
	}
	return r.hide(o.Key, seen)
}

func (r *routes) show(o resource.Object) []backend.Event {
	r.shown[o.Key] = o.UID
	return []backend.Event{{Put: &o}}
}

func (r *routes) hide(k resource.Key, seen bool) []backend.Event {
	uid, ok := r.shown[k]
	if !ok {
		return nil
	}
	delete(r.shown, k)
	return []backend.Event{{Gone: &backend.Gone{Key: k, UID: uid, Seen: seen}}}
}
