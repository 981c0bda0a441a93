package project

import "strings"

// Claim returns what the hub makes of an autonomous agent's project: the name that it has
// there and its spec. Nothing in it trusts the agent. Whatever the agent says, the project
// serves Applications of the agent's namespace on the hub only and permits them the agent's
// cluster only, and its roles are kept if they are about nothing but itself: see role. Who is
// in a role (groups, jwtTokens) is the agent's to say only if allowRoles.
//
// Every cluster that the agent's project permits becomes the agent's, as on the hub the agent
// is one. What it forbids in the cluster it runs in stays forbidden: see nowhere; what it
// forbids in others only is not.
//
// Claim of what Claim has made is the same again, under either name. So a name that begins
// with the agent's prefix is taken for claimed: Unclaim does not lead back to it. And two
// agents may claim the same name (a-b and c, a and b-c): whose it is, the name does not say.
func Claim(name string, spec map[string]any, a Agent, allowRoles bool) (hubName string, hubSpec map[string]any) {
	hubName = name
	if !strings.HasPrefix(name, prefix(a.Name)) {
		hubName = prefix(a.Name) + name
	}
	hubSpec = cloned(spec)
	hubSpec["sourceNamespaces"] = []any{a.namespace()}
	delete(hubSpec, scopedOnly)
	delete(hubSpec, "destinations")
	if to := distinct(claimed(spec), a.cluster()); len(to) > 0 {
		hubSpec["destinations"] = to
	}
	delete(hubSpec, "roles")
	owner := claimant{own: []string{hubName, name}, project: hubName, namespace: a.namespace(), members: allowRoles}
	if kept := owner.roles(spec["roles"]); len(kept) > 0 {
		hubSpec["roles"] = kept
	}
	return hubName, hubSpec
}

// Unclaim returns the name that an agent has given to what is called hubName on the hub;
// false if it cannot be the agent's.
func Unclaim(hubName, agent string) (name string, ok bool) {
	name, ok = strings.CutPrefix(hubName, prefix(agent))
	if !ok || name == "" {
		return "", false
	}
	return name, true
}

func prefix(agent string) string { return agent + "-" }

// cluster returns the destination that is the agent's cluster on the hub. Only with the
// server in it does Argo CD forbid a namespace that it excludes.
func (a Agent) cluster() destination {
	if a.Server == "" {
		return destination{"name": a.Name}
	}
	return destination{"name": a.Name, "server": a.Server}
}

// claimed returns what the spec of an autonomous agent's project says of all that the hub
// takes for the agent's cluster.
func claimed(spec map[string]any) []verdict {
	var out []verdict
	for _, d := range destinations(spec) {
		name, server := d.text("name"), d.text("server")
		said := d.judge(negatable(name, inCluster), negatable(server, local))
		if said == nil && name+server != "" {
			said = []verdict{{namespace: d.text("namespace"), of: d}} // of another cluster
		}
		out = append(out, said...)
	}
	return out
}

// inCluster is what an Argo CD calls the cluster at local, unless it was told otherwise.
const inCluster = "in-cluster"
