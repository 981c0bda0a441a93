package project

import (
	"maps"
	"slices"
)

// rename makes all in a copy's spec that names the agent's cluster, its destinations aside,
// hold for the cluster that the agent runs in. What names other clusters stays as it is.
func (a Agent) rename(spec map[string]any) {
	each(spec, "syncWindows", a.window)
	each(spec, "destinationServiceAccounts", a.serviceAccount)
	delete(spec, scopedOnly)
}

// scopedOnly is the field that lets a project use only such clusters as are registered for it.
// That is so on the side where it was written, and on no other: there none is.
const scopedOnly = "permitOnlyProjectScopedClusters"

// window makes a sync window that is for the agent's cluster one for its own as well: an
// auto-sync is kept from running by the controller on the spoke or by nobody.
func (a Agent) window(w map[string]any) {
	patterns := texts(w["clusters"])
	if slices.ContainsFunc(patterns, a.named) && !slices.ContainsFunc(patterns, isLocal) {
		clusters, _ := w["clusters"].([]any)
		w["clusters"] = append(slices.Clone(clusters), local)
	}
}

// serviceAccount makes a service account for syncs to the agent's cluster one for its own.
func (a Agent) serviceAccount(s map[string]any) {
	pattern, _ := s["server"].(string)
	if !denies(pattern) && a.at(pattern) && !isLocal(pattern) {
		s["server"] = local
	}
}

// named reports whether a pattern for names or servers matches the agent's cluster.
func (a Agent) named(pattern string) bool {
	return Match(pattern, a.Name) || !denies(pattern) && a.at(pattern)
}

func isLocal(pattern string) bool { return Match(pattern, local) }

// each has change called with a copy of each object in a list of a spec, and puts what it makes of
// them in their place.
func each(spec map[string]any, field string, change func(map[string]any)) {
	list, ok := spec[field].([]any)
	if !ok {
		return
	}
	list = slices.Clone(list)
	for i, item := range list {
		if m, ok := item.(map[string]any); ok {
			m = maps.Clone(m)
			change(m)
			list[i] = m
		}
	}
	spec[field] = list
}
