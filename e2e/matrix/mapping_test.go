package matrix

import (
	"github.com/argocd-fabric/argocd-agent/agent"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A mapping is one value of the axis of mappings: where the Applications of an agent are on
// each side.
type mapping struct {
	name string
	// place returns the namespaces of a story's Applications.
	place func(*world) (onHub, onSpoke string)
	// flags are those by which the program of a side is told of it; principal and agent tell the
	// same within the test.
	flags     func(*side) []string
	principal func(*side, *principal.Config)
	agent     func(*side, *agent.Config)
	// sources says that copies of a hub's projects say whose namespaces they take
	// Applications from.
	sources bool
}

func mappings() []mapping {
	return []mapping{
		{
			name:      "namespace",
			place:     func(w *world) (onHub, onSpoke string) { return w.name, w.spoke.home },
			flags:     func(*side) []string { return nil },
			principal: func(*side, *principal.Config) {},
			agent:     func(*side, *agent.Config) {},
		},
		{
			name: "destination",
			place: func(w *world) (onHub, onSpoke string) {
				if w.mode == resource.Autonomous { // for whom it is no other than by namespace
					return w.name, w.spoke.home
				}
				return team(w), team(w)
			},
			flags: func(s *side) []string {
				flags := []string{"--destination-based-mapping", "--allowed-namespaces", team(s.w)}
				switch {
				case s.Side == resource.Principal:
					return flags
				case s.w.mode == resource.Autonomous:
					return nil
				}
				return append(flags, "--create-namespace")
			},
			principal: func(s *side, c *principal.Config) { c.Destination, c.Allowed = true, []string{team(s.w)} },
			agent: func(s *side, c *agent.Config) {
				if s.w.mode == resource.Managed {
					c.Destination, c.Allowed = true, []string{team(s.w)}
				}
			},
			sources: true,
		},
	}
}

// team returns the namespace that a team has on both sides.
func team(w *world) string { return "team-of-" + w.name }

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
		if !w.mapping.sources {
			delete(m, "sourceNamespaces")
		}
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
		m["sourceNamespaces"] = []any{w.hub.apps}
	} else {
		m["destinations"] = []any{map[string]any{"server": localServer, "namespace": "*"}}
	}
	return resource.Canonical(m)
}
