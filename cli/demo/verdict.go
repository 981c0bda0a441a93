package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
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

// judge reads the control plane and all clusters afresh, and compares them with the table
// and with each other.
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
		for _, r := range rows {
			v.objects++
			v.compare(s, r, hub, cluster)
		}
		for _, k := range sorted(cluster) {
			v.differ("%s: %s is there, and should not be", s.Name, k)
		}
	}
	for _, k := range sorted(hub) {
		v.differ("control plane: %s is there, and should not be", k)
	}
	slices.Sort(v.differences)
	return v, nil
}

// compare compares one object with the table and with its copy, and takes both out.
func (v *verdict) compare(s *spoke, r row, hub, cluster map[resource.Key]resource.Object) {
	k := resource.Key{Kind: resource.Application, Namespace: r.Spoke.Namespace, Name: r.Name}
	there, ok := cluster[k]
	delete(cluster, k)
	if !ok {
		v.differ("%s: %s is not there", s.Name, k)
	} else {
		v.read(s.Name, there, r.Spoke, r.Revision)
	}
	if r.Hub == nil {
		if there.Origin.UID != "" {
			v.differ("%s: %s was made somebody's copy", s.Name, k)
		}
		return
	}
	k.Namespace = r.Hub.Namespace
	here, found := hub[k]
	delete(hub, k)
	if !found {
		v.differ("control plane: %s is not there", k)
	} else {
		v.read("control plane", here, *r.Hub, r.Revision)
	}
	if !ok || !found {
		return
	}
	original, copied := here, there
	if s.Mode == resource.Autonomous {
		original, copied = there, here
	}
	for what, differ := range map[string]bool{
		"spec":              rest(here) != rest(there),
		"metadata":          here.Parts[resource.Meta] != there.Parts[resource.Meta],
		"status":            here.Parts[resource.Status] != there.Parts[resource.Status],
		"operation's state": here.Parts[resource.OpState] != there.Parts[resource.OpState],
		"identity":          copied.Origin.UID != original.UID || original.Origin.UID != "",
	} {
		if differ {
			v.differ("%s: %s of %s is not what the control plane has", s.Name, what, there.Key)
		}
	}
}

// read compares an object with what the table says of it.
func (v *verdict) read(where string, o resource.Object, want expected, revision string) {
	spec, status := fields(o.Parts[resource.Spec]), fields(o.Parts[resource.Status])
	source, _ := spec["source"].(map[string]any)
	health, _ := status["health"].(map[string]any)
	synced, _ := status["sync"].(map[string]any)
	for what, differ := range map[string]bool{
		"project":     spec["project"] != want.Project,
		"destination": resource.Canonical(spec["destination"]) != resource.Canonical(want.Destination),
		"revision":    revision != "" && source["targetRevision"] != revision,
		"health":      health["status"] != "Healthy",
		"sync":        synced["status"] != "Synced",
		"existence":   o.Deleting,
	} {
		if differ {
			v.differ("%s: %s of %s is not what it should be", where, what, o.Key)
		}
	}
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

var errRead = errors.New("demo: all is read")

// read returns all that a store holds.
func read(ctx context.Context, s backend.Store) (map[resource.Key]resource.Object, error) {
	out := map[resource.Key]resource.Object{}
	err := s.Watch(ctx, backend.Scope{}, func(e backend.Event) error {
		switch {
		case e.Synced != nil:
			return errRead
		case e.Put != nil:
			out[e.Put.Key] = *e.Put
		}
		return nil
	})
	if !errors.Is(err, errRead) {
		return nil, err
	}
	return out, nil
}

func sorted(m map[resource.Key]resource.Object) []resource.Key {
	return slices.SortedFunc(maps.Keys(m), resource.Key.Compare)
}
