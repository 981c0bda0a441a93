// Package hybrid decides whether an Argo CD that reconciles Applications of its own can be a
// hub as well. An agent's Applications are reconciled on its spoke; an application-controller
// on the hub that takes them in too would look for their workloads through the resource
// proxy, write a status of its own over the agent's, and sync and prune behind its back.
package hybrid

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/argocd-fabric/argocd-agent/sync/project"
)

// A Controller is an application-controller that runs on the hub.
type Controller struct {
	Name       string   // what it is to people, such as "StatefulSet argocd/argocd-application-controller"
	Version    string   // of Argo CD, such as "v2.14.21"; anything that is no version is unknown
	Namespaces []string // in which it reconciles, beside its own: globs or /expressions/
}

// A Hub is what is known of a hub.
type Hub struct {
	Controllers []Controller
	Destination bool     // destination mapping
	Agents      []string // their namespaces, in namespace mapping; more may come
}

// Check returns nil if no controller of the hub reconciles an agent's Applications, or which
// one does, why, and what can be done. It is to be asked again when agents come.
func (h Hub) Check() error {
	var found []error
	for _, c := range h.Controllers {
		if why := h.reconciles(c); why != "" && !c.skips() {
			found = append(found, fmt.Errorf("hybrid: %s (Argo CD %s) would reconcile %s, or scale it to 0, or run Argo CD %s, whose controller leaves clusters alone that are annotated %s",
				c.Name, c.version(), why, skipping, skipReconcile))
		}
	}
	return errors.Join(found...)
}

// skipReconcile is the annotation that agents' cluster secrets carry. Argo CD before
// skipping does not look for it there.
const (
	skipReconcile = `argocd.argoproj.io/skip-reconcile: "true"`
	skipping      = "3.5 or later"
)

// reconciles says which Applications of agents a controller takes in and how to keep them
// from it, "" if none.
func (h Hub) reconciles(c Controller) string {
	if h.Destination {
		return "Applications of agents: under destination mapping they are among its own; map agents to namespaces"
	}
	if slices.Contains(c.Namespaces, "*") {
		return "the Applications of all agents: its --application-namespaces are all (*); give it some of its own, without those of agents (argocd-server needs those, so not in ConfigMap argocd-cmd-params-cm)"
	}
	var taken []string
	for _, agent := range h.Agents {
		if project.MatchNamespace(c.Namespaces, agent) {
			taken = append(taken, agent)
		}
	}
	if len(taken) == 0 {
		return ""
	}
	return fmt.Sprintf("the Applications in namespaces of agents (%s): they are among its --application-namespaces (%s); give it some of its own, without these (argocd-server needs these, so not in ConfigMap argocd-cmd-params-cm)",
		some(taken), some(c.Namespaces))
}

// some lists the first few of many.
func some(all []string) string {
	const few = 5
	sorted := slices.Sorted(slices.Values(all))
	if more := len(sorted) - few; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(sorted[:few], ", "), more)
	}
	return strings.Join(sorted, ", ")
}

// skips reports whether a controller leaves alone clusters that are so annotated.
func (c Controller) skips() bool {
	major, minor, ok := c.release()
	return ok && (major > 3 || major == 3 && minor >= 5)
}

func (c Controller) version() string {
	if _, _, ok := c.release(); !ok {
		return "of an unknown version"
	}
	return c.Version
}

// release reads the release of Argo CD out of a version such as v2.14.21 or 3.5.0-rc1.
func (c Controller) release() (major, minor int, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(c.Version, "v"), ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, err := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return major, minor, errors.Join(err, err2) == nil
}
