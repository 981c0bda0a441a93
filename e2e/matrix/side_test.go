package matrix

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A side is one side of a story: its program, its cluster, and the hands of its people.
type side struct {
	resource.Side
	w       *world
	home    string // the namespace of Argo CD and of the program
	apps    string // that of the story's Applications
	cluster cluster
	program program
	ends    ends
	health  int // the port of the program's probes
}

func (w *world) newSide(s resource.Side, home string) *side { return &side{Side: s, w: w, home: home} }

// namespaces returns those of the story, each once.
func (s *side) namespaces() []string { return slices.Compact([]string{s.home, s.apps}) }

func (s *side) app(name string) resource.Key {
	return resource.Key{Kind: resource.Application, Namespace: s.apps, Name: name}
}

// project returns the key on this side of a project that its owner calls so.
func (s *side) project(name string) resource.Key {
	if s.w.mode == resource.Autonomous && s == s.w.hub {
		name = s.w.name + "-" + name
	}
	return resource.Key{Kind: resource.Project, Namespace: s.home, Name: name}
}

func (s *side) edit(k resource.Key, f func(*resource.Object)) {
	s.w.t.Helper()
	require.NoError(s.w.t, s.cluster.edit(s.w.t.Context(), k, f), "edit %s", k)
}

// makes creates Applications, which want revision 1 of their source.
func (s *side) makes(names ...string) {
	s.w.t.Helper()
	for _, name := range names {
		s.wants(name, "1")
	}
}

// wants has an Application, which is made if need be, want a revision of its source.
func (s *side) wants(name, revision string) {
	s.w.t.Helper()
	s.edit(s.app(name), func(o *resource.Object) { o.Parts[resource.Spec] = s.w.spec("default", revision) })
}

// inProject is wants for an Application of a project, which on the owner's side is called so.
func (s *side) inProject(name, project string) {
	s.w.t.Helper()
	s.edit(s.app(name), func(o *resource.Object) { o.Parts[resource.Spec] = s.w.spec(project, "1") })
}

// describes makes a project that permits everything in the agent's cluster, or changes it.
func (s *side) describes(project, description string) {
	s.w.t.Helper()
	s.edit(s.project(project), func(o *resource.Object) { o.Parts[resource.Spec] = s.w.projectSpec(description) })
}

// marks changes the metadata of an object.
func (s *side) marks(k resource.Key, f func(*resource.Metadata)) {
	s.w.t.Helper()
	s.edit(k, func(o *resource.Object) {
		m := resource.ParseMetadata(o.Parts[resource.Meta])
		m.Labels, m.Annotations = replaced(m.Labels, nil, nil), replaced(m.Annotations, nil, nil)
		f(&m)
		o.Parts[resource.Meta] = m.Text()
	})
}

// labels gives an Application a label; an empty value takes it away.
func (s *side) labels(name, key, value string) {
	s.w.t.Helper()
	s.marks(s.app(name), func(m *resource.Metadata) {
		m.Labels[key] = value
		if value == "" {
			delete(m.Labels, key)
		}
	})
}

// cascades gives Applications Argo CD's finalizer, by which all that they have deployed is
// deleted with them.
func (s *side) cascades(names ...string) {
	s.w.t.Helper()
	for _, name := range names {
		s.marks(s.app(name), func(m *resource.Metadata) { m.Finalizers = []string{"resources-finalizer.argocd.argoproj.io"} })
	}
}

// requests asks for a sync of an Application to a revision.
func (s *side) requests(name, revision string) {
	s.w.t.Helper()
	s.edit(s.app(name), func(o *resource.Object) {
		o.Parts[resource.Operation] = resource.Canonical(map[string]any{"sync": map[string]any{"revision": revision}})
	})
}

// refreshes asks for an Application to be compared again.
func (s *side) refreshes(name string) {
	s.w.t.Helper()
	s.edit(s.app(name), func(o *resource.Object) { o.Parts[resource.RefreshMark] = resource.RefreshNormal })
}

// deletes deletes Applications.
func (s *side) deletes(names ...string) {
	s.w.t.Helper()
	for _, name := range names {
		s.removes(s.app(name))
	}
}

func (s *side) removes(k resource.Key) {
	s.w.t.Helper()
	require.NoError(s.w.t, s.cluster.remove(s.w.t.Context(), k), "remove %s", k)
}

// get returns an object that must be there.
func (s *side) get(k resource.Key) resource.Object {
	s.w.t.Helper()
	all, err := s.cluster.objects(s.w.t.Context())
	require.NoError(s.w.t, err)
	require.Contains(s.w.t, all, k)
	return all[k]
}

// has checks that an Application is there, wants a revision, and has the status of it.
func (s *side) has(name, revision string) check {
	return s.is(s.app(name), func(o resource.Object) error {
		want := s.w.spec("default", revision)
		if s == s.w.other() {
			var err error
			if want, err = s.w.copied(resource.Application, want); err != nil {
				return err
			}
		}
		if is := o.Parts[resource.Spec]; is != want {
			return fmt.Errorf("it wants %s, not %s", is, want)
		}
		return s.w.controller.behind(o)
	})
}

// is checks an object.
func (s *side) is(k resource.Key, f func(resource.Object) error) check {
	return func(ctx context.Context) error {
		all, err := s.cluster.objects(ctx)
		if err != nil {
			return err
		}
		o, ok := all[k]
		if !ok {
			return fmt.Errorf("there is no %s at the %s", k, s.Side)
		}
		if err := f(o); err != nil {
			return fmt.Errorf("%s at the %s: %w", k, s.Side, err)
		}
		return nil
	}
}

// lacks checks that objects are not there.
func (s *side) lacks(keys ...resource.Key) check {
	return func(ctx context.Context) error {
		all, err := s.cluster.objects(ctx)
		for _, k := range keys {
			if _, ok := all[k]; ok {
				return fmt.Errorf("%s is at the %s", k, s.Side)
			}
		}
		return err
	}
}

// uids returns those of all objects.
func (s *side) uids() map[resource.Key]string {
	s.w.t.Helper()
	all, err := s.cluster.objects(s.w.t.Context())
	require.NoError(s.w.t, err)
	out := map[resource.Key]string{}
	for k, o := range all {
		out[k] = o.UID
	}
	return out
}

// labelled checks the value of an Application's label, "" for none.
func (s *side) labelled(name, key, value string) check {
	return s.is(s.app(name), func(o resource.Object) error {
		if is := resource.ParseMetadata(o.Parts[resource.Meta]).Labels[key]; is != value {
			return fmt.Errorf("the label %s is %q, not %q", key, is, value)
		}
		return nil
	})
}

// another checks that an object is not the one of a UID.
func another(uid string) func(resource.Object) error {
	return func(o resource.Object) error {
		if o.UID == uid {
			return errors.New("it is the same object")
		}
		return nil
	}
}
