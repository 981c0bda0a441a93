package project

import (
	"maps"
	"slices"
	"strings"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A Target is what an Application aims at, after Argo CD has looked up whichever of its
// cluster's name and address it does not say. "" is unknown, for Namespace none.
type Target struct{ Name, Server, Namespace string }

// Permits reports whether a project with a spec permits a target: what
// AppProject.IsDestinationPermitted says in Argo CD 2.14 and 3, permitOnlyProjectScopedClusters
// aside, which depends on other objects.
func Permits(spec map[string]any, t Target) bool {
	permitted := false
	for _, d := range destinations(spec) {
		name, server, namespace := d.text("name"), d.text("server"), d.text("namespace")
		named := t.Name != "" && negatable(name, t.Name)
		at := t.Server != "" && negatable(server, t.Server)
		in := negatable(namespace, t.Namespace)
		switch {
		case (named || at) && in:
			permitted = true
		case !named && denies(name), !at && denies(server) && in, at && denies(namespace) && !in:
			return false
		}
	}
	return permitted
}

// A destination is an entry of a project's destinations.
type destination map[string]any

func destinations(spec map[string]any) []destination {
	list, _ := spec["destinations"].([]any)
	var out []destination
	for _, item := range list {
		if d, ok := item.(map[string]any); ok {
			out = append(out, d)
		}
	}
	return out
}

func (d destination) text(field string) string {
	text, _ := d[field].(string)
	return text
}

// A verdict is what a destination says of one cluster: that it permits some namespaces
// there, or forbids them whatever the others permit.
type verdict struct {
	forbids   bool
	namespace string      // a pattern
	of        destination // what says so
}

// everywhere is the pattern of all namespaces.
const everywhere = "*"

// judge returns what a destination says of a cluster that its name and its server match or
// do not. It says the same as Permits, but for its first case: that excluding a namespace
// forbids it only if the server matches is left to those that write a verdict down.
func (d destination) judge(named, at bool) []verdict {
	namespace := d.text("namespace")
	permits := verdict{namespace: namespace, of: d}
	switch {
	case (named || at) && !named && denies(d.text("name")):
		if others, some := opposite(namespace); some {
			return []verdict{permits, {true, others, d}}
		}
		return []verdict{permits}
	case named || at:
		return []verdict{permits}
	case denies(d.text("name")):
		return []verdict{{true, everywhere, d}}
	case denies(d.text("server")):
		return []verdict{{true, namespace, d}}
	}
	return nil
}

// room reports whether verdicts leave any namespace permitted. It may say so falsely of
// patterns that only together leave none.
func room(verdicts []verdict) bool {
	return slices.ContainsFunc(verdicts, func(v verdict) bool {
		return !v.forbids && !v.empty() && !slices.ContainsFunc(verdicts, func(w verdict) bool { return w.forbids && w.covers(v) })
	})
}

// empty reports whether a verdict is about no namespace at all.
func (v verdict) empty() bool { return denies(v.namespace) && anything(v.namespace[1:]) }

// covers reports whether a verdict is certainly about each namespace that w is about.
func (v verdict) covers(w verdict) bool {
	literal := !strings.ContainsAny(w.namespace, `!*?[]{}\`)
	return anything(v.namespace) || v.namespace == w.namespace || literal && negatable(v.namespace, w.namespace)
}

// nowhere is a pattern of servers that forbids every cluster and, unlike one that has
// anything behind its `!`, permits none. (Argo CD refuses the shorter `!*`.)
const nowhere = "!**"

// distinct returns verdicts as destinations: those that permit are aimed at a cluster, those
// that forbid do so on all clusters. None is there twice.
func distinct(verdicts []verdict, cluster destination) []any {
	out, seen := []any{}, map[string]bool{}
	for _, v := range verdicts {
		d := v.destination(cluster)
		if text := resource.Canonical(d); !seen[text] {
			seen[text] = true
			out = append(out, d)
		}
	}
	return out
}

func (v verdict) destination(cluster destination) map[string]any {
	d := maps.Clone(v.of)
	for _, field := range []string{"name", "server", "namespace"} {
		delete(d, field)
	}
	if v.forbids {
		d["server"] = nowhere
	} else {
		maps.Copy(d, cluster)
	}
	if v.namespace != "" {
		d["namespace"] = v.namespace
	}
	return d
}
