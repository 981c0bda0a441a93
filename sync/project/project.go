// Package project knows which AppProjects of a hub reach an agent and what becomes of one
// on its way: down to a managed agent, where a project is to permit in the agent's own
// cluster what it permits on the hub in the cluster of the agent's name (Concerns,
// ForAgent), and up from an autonomous one, where it is to permit nothing that is another's
// (Claim, Unclaim). Repository Secrets follow the project that they are of (OfRepository).
//
// An AppProject's spec is what was decoded from JSON, numbers as json.Number. What is given
// is never changed, what is returned may share pieces with it, and fields that are not
// spoken of here pass as they are, those of a newer Argo CD too. Whatever is not of the type
// that Argo CD gives it counts as absent, and nothing is too strange to be read.
//
// Patterns are read as Argo CD reads them, by the libraries with which it does. One thing
// about them surprises: a destination whose name or server is `!x` forbids x and permits
// everything else. Nothing that is written here is of that form where it could permit
// somebody's cluster.
package project

import (
	"cmp"
	"maps"
)

// An Agent is what matching needs to know of an agent.
type Agent struct {
	Name        string
	Namespace   string // of its Applications on the hub, in namespace mapping; "" is its name
	Server      string // the address in its cluster secret, "" if unknown
	Destination bool   // destination mapping
}

// Concerns reports whether the project with a spec reaches a managed agent: whether the hub
// could permit an Application in any namespace of the agent's cluster and, in namespace
// mapping, from the agent's namespace on the hub. What ForAgent has made for an agent
// concerns it.
func Concerns(spec map[string]any, a Agent) bool {
	if a.Destination || MatchNamespace(texts(spec["sourceNamespaces"]), a.namespace()) || a.made(spec) {
		return room(a.verdicts(spec))
	}
	return false
}

// ForAgent returns the spec of the agent's copy of a project. It permits in the cluster that
// the agent runs in what spec permits in the cluster of the agent's name, and nothing
// anywhere else: see local. Sync windows and service accounts of the agent's cluster hold there
// too. It gives nobody a role; and as an agent's Applications are in the namespace of its
// Argo CD, which needs no leave, no sourceNamespaces but in destination mapping. The copy of a
// project that does not concern the agent has no destination.
//
// In one thing a copy is stricter: a namespace that one destination excludes (`!kube-system`)
// is forbidden even if another permits it. Argo CD does the same on the hub, but only for
// destinations that are given by their server.
func ForAgent(spec map[string]any, a Agent) map[string]any {
	out := cloned(spec)
	delete(out, "roles")
	delete(out, "destinations")
	if !a.Destination {
		delete(out, "sourceNamespaces")
	}
	a.rename(out)
	if !Concerns(spec, a) {
		return out
	}
	out["destinations"] = distinct(a.verdicts(spec), destination{"name": a.Name, "server": local})
	return out
}

// local is the address under which every Argo CD knows the cluster that it runs in; the
// destinations of a copy are by it, as a spoke may have given its cluster another name. They
// keep the agent's name beside it, which tells a copy from a project for the hub's own cluster:
// that has the same address on the hub. On a spoke it would permit a cluster of that name only.
const local = "https://kubernetes.default.svc"

// made reports whether a spec is as ForAgent writes it in namespace mapping.
func (a Agent) made(spec map[string]any) bool {
	if spec["sourceNamespaces"] != nil || spec["roles"] != nil {
		return false
	}
	for _, d := range destinations(spec) {
		if d.text("server") != nowhere && (d.text("server") != local || d.text("name") != a.Name) {
			return false
		}
	}
	return true
}

func (a Agent) namespace() string { return cmp.Or(a.Namespace, a.Name) }

// verdicts returns what a spec says of the agent's cluster.
func (a Agent) verdicts(spec map[string]any) []verdict {
	var out []verdict
	for _, d := range destinations(spec) {
		out = append(out, d.judge(negatable(d.text("name"), a.Name), a.at(d.text("server")))...)
	}
	return out
}

// cloned returns a copy of a map that can be written to.
func cloned(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return maps.Clone(m)
}

// texts returns those of a list's items that are texts.
func texts(list any) []string {
	items, _ := list.([]any)
	var out []string
	for _, i := range items {
		if text, ok := i.(string); ok {
			out = append(out, text)
		}
	}
	return out
}
