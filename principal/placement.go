package principal

import (
	"cmp"

	"github.com/argocd-fabric/argocd-agent/sync/project"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A Placement says which objects of the hub may be an agent's, under which keys both sides
// speak of them, what the agent is told of them, and what becomes of those that the agent
// tells of.
//
// Under namespace mapping an agent's Applications are those in the hub's namespace of the
// agent's name, and on the link they have no namespace. Under destination mapping, which is
// for managed agents, they may be in any namespace, and have the same one on both sides; only
// those in Argo CD's own have none on the link, as it may be called otherwise on the spoke.
// Which of them are the agent's is said by what is in them, see allotment.
//
// Projects, repositories and keys are in Argo CD's own namespaces on both sides; which of the
// hub's concern a managed agent is said by what is in them, see routes, and an autonomous one
// has those projects whose names begin with its own.
type Placement struct {
	Agent       string
	Mode        resource.Mode
	Namespace   string // of Argo CD on the hub
	Destination bool   // destination mapping
	// Roles says that the projects of an autonomous agent say who is in their roles.
	Roles bool
	// Unscoped says that repositories of no project go to all managed agents.
	Unscoped bool
}

// Namespaces returns those of the hub in which the agent has objects, none for all.
func (p Placement) Namespaces() []string {
	if p.Destination {
		return nil
	}
	return []string{p.Agent, p.Namespace}
}

// home returns the namespace of the hub whose objects of a kind have none on the link.
func (p Placement) home(k resource.Kind) string {
	if k == resource.Application && !p.Destination {
		return p.Agent
	}
	return p.Namespace
}

// travels reports whether objects of a kind do, and elsewhere whether they may be in any
// namespace.
func (p Placement) travels(k resource.Kind) (ok, elsewhere bool) {
	return resource.Rules{Mode: p.Mode}.Travels(k), k == resource.Application && p.Destination
}

// Out returns the key on the link of the hub's object k; false if that object cannot be one
// of the agent's.
func (p Placement) Out(k resource.Key) (resource.Key, bool) {
	ok, elsewhere := p.travels(k.Kind)
	home := k.Namespace == p.home(k.Kind)
	if !ok || !home && !elsewhere || k.Namespace == "" || k.Name == "" {
		return resource.Key{}, false
	}
	if k.Kind == resource.Project && p.Mode == resource.Autonomous {
		if k.Name, ok = project.Unclaim(k.Name, p.Agent); !ok {
			return resource.Key{}, false
		}
	}
	if home {
		k.Namespace = ""
	}
	return k, true
}

// In is the inverse of Out. Whoever sends a key with a namespace that keys do not have is
// after something that is not its own. Neither may the name of
// an autonomous agent's project begin with the agent's own: on the hub it could not be told
// from another.
func (p Placement) In(k resource.Key) (resource.Key, bool) {
	home := p.home(k.Kind)
	ok, elsewhere := p.travels(k.Kind)
	if !ok || k.Namespace != "" && !elsewhere || k.Namespace == home || k.Name == "" {
		return resource.Key{}, false
	}
	k.Namespace = cmp.Or(k.Namespace, home)
	if k.Kind == resource.Project && p.Mode == resource.Autonomous {
		if _, claimed := project.Unclaim(k.Name, p.Agent); claimed {
			return resource.Key{}, false
		}
		k.Name, _ = project.Claim(k.Name, nil, p.agent(), false)
	}
	return k, true
}

// agent returns what is to be known of the agent to place projects.
func (p Placement) agent() project.Agent {
	return project.Agent{Name: p.Agent, Namespace: p.Agent, Destination: p.Destination}
}

// Down returns what an agent is told of parts of k that the hub holds: a managed agent is to
// deploy into its own cluster, whatever the hub calls that, and its projects permit that.
func (p Placement) Down(k resource.Key, parts resource.Parts) resource.Parts {
	if p.Mode != resource.Managed {
		return parts
	}
	switch k.Kind {
	case resource.Application:
		parts[resource.Spec] = aimed(parts[resource.Spec], "server", localServer)
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

// aim returns the cluster that an Application's destination names, or the agent that the
// address in it names; "" if it names none or the one that Argo CD itself is in.
func aim(spec string) string {
	v, _ := resource.Decode(spec)
	m, _ := v.(map[string]any)
	to, _ := m["destination"].(map[string]any)
	name, _ := to["name"].(string)
	if server, _ := to["server"].(string); name == "" {
		name, _ = project.AgentAt(server)
	}
	if name == "in-cluster" {
		return ""
	}
	return name
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
