package principal

import (
	"strings"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A Placement says which objects of the hub are an agent's, what the agent is told of
// them, and what becomes of those that the agent tells of. It is namespace mapping: an
// agent's objects are those in the hub's namespace of the agent's name, and have the same
// names on both sides.
type Placement struct {
	Agent string
	Mode  resource.Mode
}

// Namespace returns the only namespace of the hub in which the agent has objects.
func (p Placement) Namespace() string { return p.Agent }

// Out returns the key on the link of the hub's object k; false if that object is none of
// the agent's.
func (p Placement) Out(k resource.Key) (resource.Key, bool) {
	if k.Namespace != p.Agent || k.Name == "" {
		return resource.Key{}, false
	}
	return resource.Key{Kind: k.Kind, Name: k.Name}, true
}

// In is the inverse of Out. On a link under namespace mapping no key has a namespace:
// whoever sends one that has is after something that is not its own.
func (p Placement) In(k resource.Key) (resource.Key, bool) {
	if k.Namespace != "" || k.Name == "" {
		return resource.Key{}, false
	}
	return resource.Key{Kind: k.Kind, Namespace: p.Agent, Name: k.Name}, true
}

// Down returns what an agent is told of parts that the hub holds: a managed agent is to
// deploy into its own cluster, whatever the hub calls that.
func (p Placement) Down(k resource.Kind, parts resource.Parts) resource.Parts {
	if k == resource.Application && p.Mode == resource.Managed {
		parts[resource.Spec] = changed(parts[resource.Spec], aimAt("server", localServer))
	}
	return parts
}

// Up returns what the hub makes of parts that an agent tells of. Nothing in it trusts the
// agent: whatever an autonomous one says, its Applications are of a project and of a
// cluster of its own. Up of what Up has made is the same again.
func (p Placement) Up(k resource.Kind, parts resource.Parts) resource.Parts {
	if k == resource.Application && p.Mode == resource.Autonomous {
		parts[resource.Spec] = changed(parts[resource.Spec], p.claimProject, aimAt("name", p.Agent))
		parts[resource.Status] = changed(parts[resource.Status], p.claimChildren)
	}
	return parts
}

// localServer is the address under which every Argo CD knows the cluster that it runs
// in. A spoke may have given its cluster another name, but not another address.
const localServer = "https://kubernetes.default.svc"

// A change is made to a value that was decoded from JSON, in place.
type change func(map[string]any)

// changed returns a canonical JSON text with changes made to it. A text that is no JSON
// object has nothing to change.
func changed(text string, changes ...change) string {
	v, err := resource.Decode(text)
	m, ok := v.(map[string]any)
	if err != nil || !ok {
		return text
	}
	for _, c := range changes {
		c(m)
	}
	return resource.Canonical(m)
}

// aimAt makes a spec's destination the cluster with the given name or server, and keeps
// the namespace. Argo CD refuses a destination that has both.
func aimAt(field, value string) change {
	return func(spec map[string]any) {
		to, ok := spec["destination"].(map[string]any)
		if !ok {
			to = map[string]any{}
		}
		delete(to, "name")
		delete(to, "server")
		to[field] = value
		spec["destination"] = to
	}
}

// claimProject puts a spec into the project that the hub has for the agent's project.
func (p Placement) claimProject(spec map[string]any) {
	project, _ := spec["project"].(string)
	if project == "" {
		project = "default" // as Argo CD reads it
	}
	if prefix := p.Agent + "-"; !strings.HasPrefix(project, prefix) {
		project = prefix + project
	}
	spec["project"] = project
}

// claimChildren makes the Applications among a status' resources point to where the hub
// has them.
func (p Placement) claimChildren(status map[string]any) {
	list, _ := status["resources"].([]any)
	for _, r := range list {
		r, _ := r.(map[string]any)
		if r["group"] == "argoproj.io" && r["kind"] == string(resource.Application) {
			r["namespace"] = p.Agent
		}
	}
}
