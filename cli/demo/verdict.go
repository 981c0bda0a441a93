package demo

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/verify"
)

//go:embed testdata/alive.yaml
var alive string

// A row of the table says how one object reads on either side.
type row struct {
	Name     string
	Revision string    // of its source, if it has one
	Hub      *expected // nil: it must not be there
	Spoke    expected
}

type expected struct {
	Namespace   string
	Project     string
	Destination map[string]any
}

// rows returns what must be there of an agent.
func rows(s *spoke, cut bool) ([]row, error) {
	var table struct{ Cut, Managed, Autonomous []row }
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(alive, "$agent", s.Name)), &table); err != nil {
		return nil, fmt.Errorf("demo: read the table: %w", err)
	}
	switch {
	case cut:
		return table.Cut, nil
	case s.Mode == resource.Managed:
		return table.Managed, nil
	}
	return table.Autonomous, nil
}

// A verdict is what was found when the control plane was compared with all clusters.
type verdict struct {
	objects     int
	differences []string
}

func (v *verdict) differ(format string, args ...any) {
	v.differences = append(v.differences, fmt.Sprintf(format, args...))
}

// judge reads the control plane and all clusters afresh. Every object must be in the table,
// and be on either side as the table says; mapped by the table, both sides must be equal.
func (w *world) judge(ctx context.Context) (v verdict, err error) {
	hub, err := read(ctx, w.hub)
	if err != nil {
		return v, err
	}
	for i, s := range w.spokes {
		cluster, err := read(ctx, s.cluster)
		if err != nil {
			return v, err
		}
		rows, err := rows(s, i == 0)
		if err != nil {
			return v, err
		}
		v.objects += len(rows)
		v.pair(s, rows, hub, cluster)
		for _, k := range slices.SortedFunc(maps.Keys(cluster), resource.Key.Compare) {
			v.differ("%s: %s is there, and should not be", s.Name, k)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(hub), resource.Key.Compare) {
		v.differ("control plane: %s is there, and should not be", k)
	}
	slices.Sort(v.differences)
	return v, nil
}

// pair takes the objects of rows out of both sides, and compares them.
func (v *verdict) pair(s *spoke, rows []row, hub, cluster map[resource.Key]resource.Object) {
	var hubs, spokes []resource.Object
	for _, r := range rows {
		if o, ok := v.take(s.Name, cluster, r, r.Spoke); ok {
			o.Key.Namespace = ""
			spokes = append(spokes, o)
			if r.Hub == nil && o.Origin != (resource.Origin{}) {
				v.differ("%s: %s has become somebody's copy", s.Name, r.Name)
			}
		}
		if r.Hub == nil {
			continue
		}
		if o, ok := v.take("control plane", hub, r, *r.Hub); ok {
			o.Key.Namespace = ""
			o.Parts[resource.Spec] = r.Spoke.in(o.Parts[resource.Spec])
			hubs = append(hubs, o)
		}
	}
	for _, d := range verify.Compare(verify.Options{Mode: s.Mode, Hub: hubIdentity, Agent: s.Name}, hubs, spokes) {
		v.differ("%s: %s", s.Name, d)
	}
}

// take takes an object out of a side, and compares it with what the table says of it.
func (v *verdict) take(side string, objects map[resource.Key]resource.Object, r row, want expected) (resource.Object, bool) {
	k := resource.Key{Kind: resource.Application, Namespace: want.Namespace, Name: r.Name}
	o, ok := objects[k]
	if !ok {
		v.differ("%s: %s is not there", side, k)
		return o, false
	}
	delete(objects, k)
	spec, status := fields(o.Parts[resource.Spec]), fields(o.Parts[resource.Status])
	for _, c := range []struct {
		what   string
		differ bool
	}{
		{"project or destination", want.in(o.Parts[resource.Spec]) != o.Parts[resource.Spec]},
		{"revision", r.Revision != "" && below(spec, "source")["targetRevision"] != r.Revision},
		{"sync status", below(status, "sync")["status"] != "Synced"},
		{"health", below(status, "health")["status"] != "Healthy"},
		{"existence", o.Deleting},
	} {
		if c.differ {
			v.differ("%s: %s of %s is not what it should be", side, c.what, k)
		}
	}
	return o, true
}

// in returns a spec with the project and the destination that are expected.
func (e expected) in(spec string) string {
	m := fields(spec)
	if m == nil {
		return spec
	}
	m["project"], m["destination"] = e.Project, e.Destination
	return resource.Canonical(m)
}

func read(ctx context.Context, s backend.Store) (map[resource.Key]resource.Object, error) {
	objects, err := verify.Read(ctx, s, backend.Scope{})
	out := make(map[resource.Key]resource.Object, len(objects))
	for _, o := range objects {
		out[o.Key] = o
	}
	return out, err
}

// rest returns an object's spec without what differs between the two sides.
func rest(o resource.Object) string {
	spec := fields(o.Parts[resource.Spec])
	delete(spec, "destination")
	delete(spec, "project")
	return resource.Canonical(spec)
}

// fields returns the fields of a JSON object; none of what is not one.
func fields(text string) map[string]any {
	v, _ := resource.Decode(text)
	m, _ := v.(map[string]any)
	return m
}

func below(m map[string]any, field string) map[string]any {
	v, _ := m[field].(map[string]any)
	return v
}
