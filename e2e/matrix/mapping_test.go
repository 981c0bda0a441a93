package matrix

import (
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A mapping is one value of the axis of mappings: where the Applications of an agent are on
// each side.
type mapping struct {
	name string
	// flags are those by which both programs are told of it, and tell the same within the test.
	flags []string
	tell  func(*principal.Config)
	// place returns the namespaces of a story's Applications, given the agent's name and those
	// of Argo CD on either side.
	place func(m resource.Mode, agent, hub, spoke string) (onHub, onSpoke string)
}

func mappings() []mapping {
	return []mapping{
		{
			name: "namespace",
			tell: func(*principal.Config) {},
			place: func(_ resource.Mode, agent, _, spoke string) (onHub, onSpoke string) {
				return agent, spoke
			},
		},
	}
}

const localServer = "https://kubernetes.default.svc"

// copied returns what the spec of a copy is to be, given that of its original: the mapping of
// what stories write, put down a second time.
func (w *world) copied(k resource.Kind, spec string) (string, error) {
	v, err := resource.Decode(spec)
	if err != nil {
		return "", err
	}
	m, ok := v.(map[string]any)
	switch {
	case !ok:
		return spec, nil
	case k == resource.Application && w.mode == resource.Managed:
		m["destination"] = map[string]any{"server": localServer, "namespace": "web"}
	case k == resource.Application:
		m["destination"] = map[string]any{"name": w.name, "namespace": "web"}
		project, _ := m["project"].(string)
		m["project"] = w.name + "-" + project
	case w.mode == resource.Managed:
		m["destinations"] = []any{map[string]any{"server": localServer, "name": w.name, "namespace": "*"}}
		delete(m, "sourceNamespaces")
	default:
		m["destinations"] = []any{map[string]any{"name": w.name, "namespace": "*"}}
		m["sourceNamespaces"] = []any{w.name}
	}
	return resource.Canonical(m), nil
}

// spec returns that of an Application as its owner writes it.
func (w *world) spec(project, revision string) string {
	to := map[string]any{"name": w.name, "namespace": "web"}
	if w.mode == resource.Autonomous {
		to = map[string]any{"server": localServer, "namespace": "web"}
	}
	return resource.Canonical(map[string]any{
		"project": project, "destination": to,
		"source": map[string]any{"repoURL": "https://git.example.com/apps.git", "path": "shop", "targetRevision": revision},
	})
}

// projectSpec returns that of a project as its owner writes it.
func (w *world) projectSpec(description string) string {
	m := map[string]any{"description": description, "sourceRepos": []any{"*"}}
	if w.mode == resource.Managed {
		m["destinations"] = []any{map[string]any{"name": w.name, "namespace": "*"}}
		m["sourceNamespaces"] = []any{w.name}
	} else {
		m["destinations"] = []any{map[string]any{"server": localServer, "namespace": "*"}}
	}
	return resource.Canonical(m)
}
