package demo

import (
	"context"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A controller stands for Argo CD's application controller on a spoke. It deploys
// nothing: whatever an Application wants is said to be synchronised and healthy, and what
// a deleted one had deployed is said to be gone.
type controller struct {
	cluster *memstore.Store
}

// Run reconciles until ctx is done, and returns its cause.
func (c controller) Run(ctx context.Context) error {
	return c.cluster.Watch(ctx, backend.Scope{}, func(e backend.Event) error {
		if e.Put == nil || e.Put.Key.Kind != resource.Application {
			return nil
		}
		if e.Put.Deleting {
			c.cluster.Finish(e.Put.Key)
		} else if c.behind(*e.Put) {
			c.cluster.Edit(e.Put.Key, c.reconcile)
		}
		return nil
	})
}

func (c controller) behind(o resource.Object) bool {
	before := o.Parts
	c.reconcile(&o)
	return o.Parts != before
}

// reconcile gives an Application the status that fits its spec.
func (c controller) reconcile(o *resource.Object) {
	v, _ := resource.Decode(o.Parts[resource.Spec])
	spec, _ := v.(map[string]any)
	sources := spec["sources"]
	if sources == nil {
		sources = []any{spec["source"]}
	}
	o.Parts[resource.Status] = resource.Canonical(map[string]any{
		"health": map[string]any{"status": "Healthy"},
		"sync": map[string]any{
			"status":     "Synced",
			"comparedTo": map[string]any{"sources": sources, "destination": spec["destination"]},
			"revision":   string(resource.Sum(o.Parts[resource.Spec])),
		},
		"resources": []any{map[string]any{
			"group": "apps", "version": "v1", "kind": "Deployment", "name": o.Key.Name,
			"status": "Synced", "health": map[string]any{"status": "Healthy"},
		}},
	})
}
