package matrix

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A controller stands for Argo CD's on a spoke: every Application gets the status of its
// spec, what was asked for is done, and what is deleted is gone soon.
type controller struct {
	cluster cluster

	mu        sync.Mutex
	runs      map[string]int // of each request, by the UID of its Application and its text
	refreshes map[string]int // of each Application, by name
}

// startController starts one on the spoke of a world, which ends with the test.
func startController(w *world) *controller {
	c := &controller{cluster: w.spoke.cluster, runs: map[string]int{}, refreshes: map[string]int{}}
	w.beside("the controller", func(ctx context.Context) error {
		steps, inner := errgroup.WithContext(ctx)
		steps.Go(func() error {
			return c.cluster.follow(inner, func(o resource.Object) {
				if o.Deleting || c.behind(o) != nil {
					steps.Go(func() error {
						time.Sleep(100 * time.Millisecond)
						return c.reconcile(inner, o)
					})
				}
			})
		})
		return steps.Wait()
	})
	return c
}

// behind returns what is left to do for an Application.
func (c *controller) behind(o resource.Object) error {
	status, err := resource.Decode(o.Parts[resource.Status])
	is, _ := status.(map[string]any)
	delete(is, "reconciledAt")
	switch {
	case err != nil:
		return err
	case resource.Canonical(is) != resource.Canonical(statusOf(o.Parts[resource.Spec])):
		return fmt.Errorf("its status is %q", o.Parts[resource.Status])
	case o.Parts[resource.Operation]+o.Parts[resource.RefreshMark] != "":
		return errors.New("it is asked for something")
	}
	return nil
}

// reconcile does what is left to do for an Application that was seen.
func (c *controller) reconcile(ctx context.Context, seen resource.Object) error {
	if seen.Deleting {
		return c.cluster.finish(ctx, seen.Key)
	}
	all, err := c.cluster.objects(ctx)
	if err != nil {
		return err
	}
	if now, ok := all[seen.Key]; !ok || now.UID != seen.UID || now.Deleting || c.behind(now) == nil {
		return nil
	}
	var done resource.Object // as it was before
	err = c.cluster.edit(ctx, seen.Key, func(o *resource.Object) {
		done = *o
		if o.UID != seen.UID {
			return // it is another one, or none
		}
		work(o)
	})
	if err == nil {
		c.count(done)
	}
	return err
}

// work does all that is left to do for an Application.
func work(o *resource.Object) {
	status := statusOf(o.Parts[resource.Spec])
	now := time.Now().UTC().Format(time.RFC3339)
	before, _ := resource.Decode(o.Parts[resource.Status])
	if m, ok := before.(map[string]any); ok && m["reconciledAt"] != nil {
		status["reconciledAt"] = m["reconciledAt"]
	}
	if o.Parts[resource.RefreshMark] != "" {
		status["reconciledAt"], o.Parts[resource.RefreshMark] = now, ""
	}
	o.Parts[resource.Status] = resource.Canonical(status)
	if operation, err := resource.Decode(o.Parts[resource.Operation]); err == nil && operation != nil {
		o.Parts[resource.OpState] = resource.Canonical(map[string]any{
			"phase": "Succeeded", "operation": operation, "startedAt": now, "finishedAt": now, "message": "successfully synced",
		})
		o.Parts[resource.Operation] = ""
	}
}

// count notes what was done for an Application that was like this.
func (c *controller) count(before resource.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if operation := before.Parts[resource.Operation]; operation != "" {
		c.runs[before.UID+" "+operation]++
	}
	if before.Parts[resource.RefreshMark] != "" {
		c.refreshes[before.Key.Name]++
	}
}

// ran returns how often each request was run.
func (c *controller) ran() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.runs)
}

// refreshed returns how often an Application was refreshed.
func (c *controller) refreshed(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refreshes[name]
}

// statusOf is the status of an Application with this spec, as Argo CD's definition takes it.
func statusOf(spec string) map[string]any {
	v, _ := resource.Decode(spec)
	m, _ := v.(map[string]any)
	source, _ := m["source"].(map[string]any)
	return map[string]any{
		"sync":   map[string]any{"status": "Synced", "revision": source["targetRevision"]},
		"health": map[string]any{"status": "Healthy"},
	}
}
