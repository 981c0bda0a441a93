package principal

import (
	"slices"

	"github.com/argocd-fabric/argocd-agent/sync/project"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A Placement says which objects of the hub are an agent's, what the agent is told of
// them, and what becomes of those that the agent tells of. It is namespace mapping: an
// agent's Applications are those in the hub's namespace of the agent's name, and have the
// same names on both sides. Projects, repositories and keys are in Argo CD's own namespaces
// on both sides; which of the hub's concern a managed agent is said by what is in them, see
// routes, and an autonomous one has those projects whose names begin with its own.
type Placement struct {
	Agent     string
	Mode      resource.Mode
	Namespace string // of Argo CD on the hub
	// Roles says that the projects of an autonomous agent say who is in their roles.
	Roles bool
	// Unscoped says that repositories of no project go to all managed agents.
	Unscoped bool
}

// Namespaces returns those of the hub in which the agent has objects.
func (p Placement) Namespaces() []string { return []string{p.Agent, p.Namespace} }

// where says in which namespace of the hub the objects of a kind are that an agent may have.
func (p Placement) where(k resource.Kind) (namespace string, ok bool) {
	switch {
	case !slices.Contains(resource.Rules{Mode: p.Mode}.Kinds(), k):
		return "", false
	case k == resource.Application:
		return p.Agent, true
	}
	return p.Namespace, true
}

// Out returns the key on the link of the hub's object k; false if that object cannot be one
// of the agent's.
func (p Placement) Out(k resource.Key) (resource.Key, bool) {
	namespace, ok := p.where(k.Kind)
	if !ok || k.Namespace != namespace || k.Name == "" {
		return resource.Key{}, false
	}
	if k.Kind == resource.Project && p.Mode == resource.Autonomous {
		if k.Name, ok = project.Unclaim(k.Name, p.Agent); !ok {
			return resource.Key{}, false
		}
	}
	k.Namespace = ""
	return k, true
}

// In is the inverse of Out. On a link under namespace mapping no key has a namespace:
// whoever sends one that has is after something that is not its own. Neither may the name of
// an autonomous agent's project begin with the agent's own: on the hub it could not be told
// from another.
func (p Placement) In(k resource.Key) (resource.Key, bool) {
	namespace, ok := p.where(k.Kind)
	if !ok || k.Namespace != "" || k.Name == "" {
		return resource.Key{}, false
	}
	k.Namespace = namespace
	if k.Kind == resource.Project && p.Mode == resource.Autonomous {
		if _, claimed := project.Unclaim(k.Name, p.Agent); claimed {
			return resource.Key{}, false
		}
		k.Name, _ = project.Claim(k.Name, nil, p.agent(), false)
	}
	return k, true
}

// agent returns what is to be known of the agent to place projects.
func (p Placement) agent() project.Agent { return project.Agent{Name: p.Agent, Namespace: p.Agent} }

// Down returns what an agent is told of parts of k that the hub holds: a managed agent is to
// deploy into its own cluster, whatever the hub calls that, and its projects permit that.
func (p Placement) Down(k resource.Key, parts resource.Parts) resource.Parts {
	if p.Mode != resource.Managed {
		return parts
	}
	switch k.Kind {
	case resource.Application:
		parts[resource.Spec] = changed(parts[resource.Spec], aimAt("server", localServer))
	case resource.Project:
		parts[resource.Spec] = replaced(parts[resource.Spec], func(spec map[string]any) map[string]any {
			return project.ForAgent(spec, p.agent())
		})
	}
	return parts
}

// Up returns what the hub makes of parts of k (on the link) that an agent tells of. Nothing in
// it trusts the agent: whatever an autonomous one says, its Applications are of a project and
// of a cluster of its own, and its projects permit nothing else. Up of what Up has made is the
// same again.
func (p Placement) Up(k resource.Key, parts resource.Parts) resource.Parts {
	if p.Mode != resource.Autonomous {
		return parts
	}
	switch k.Kind {
	case resource.Application:
		parts[resource.Spec] = changed(parts[resource.Spec], p.claimProject, aimAt("name", p.Agent))
		parts[resource.Status] = changed(parts[resource.Status], p.claimChildren)
	case resource.Project:
		parts[resource.Spec] = replaced(parts[resource.Spec], func(spec map[string]any) map[string]any {
			_, claimed := project.Claim(k.Name, spec, p.agent(), p.Roles)
			return claimed
		})
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

// replaced returns a canonical JSON text with what is made of it in its place. A text that is
// no JSON object stays.
func replaced(text string, by func(map[string]any) map[string]any) string {
	v, err := resource.Decode(text)
	m, ok := v.(map[string]any)
	if err != nil || !ok {
		return text
	}
	return resource.Canonical(by(m))
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
	name, _ := spec["project"].(string)
	if name == "" {
		name = "default" // as Argo CD reads it
	}
	spec["project"], _ = project.Claim(name, nil, p.agent(), false)
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
