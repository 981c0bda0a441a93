package simulation

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A controller stands for Argo CD's on a spoke: every Application gets the status of its
// spec, what was asked for is run, and what is deleted with all that it deployed is gone
// some time later.
type controller struct {
	cluster *memstore.Store
	mu      sync.Mutex
	paused  bool
	takes   time.Duration  // how long each step takes
	runs    map[string]int // of each request, by the UID of its object and its text
	fresh   map[string]int // how often each object was refreshed, by its name and the mark that asked for it
}

// startController starts one that ends with the test.
func startController(t *testing.T, cluster *memstore.Store) *controller {
	c := &controller{cluster: cluster, takes: 100 * time.Millisecond, runs: map[string]int{}, fresh: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		cluster.Watch(ctx, backend.Scope{}, func(e backend.Event) error {
			if e.Put != nil && c.behind(*e.Put) {
				time.AfterFunc(c.pace(), func() {
					if ctx.Err() == nil {
						c.reconcile(e.Put.Key)
					}
				})
			}
			return nil
		})
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return c
}

func (c *controller) pace() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.takes
}

// pause has the controller do nothing, so that a story may write a status itself.
func (c *controller) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = true
}

// slow says how long each step takes.
func (c *controller) slow(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takes = d
}

// resume has it catch up.
func (c *controller) resume() {
	c.mu.Lock()
	c.paused = false
	c.mu.Unlock()
	for k := range c.cluster.All() {
		c.reconcile(k)
	}
}

func (c *controller) behind(o resource.Object) bool {
	return o.Deleting || o.Parts[resource.Operation]+o.Parts[resource.RefreshMark] != "" || o.Parts[resource.Status] != statusOf(o.Parts[resource.Spec])
}

// done reports whether there is nothing for it to do.
func (c *controller) done() bool {
	for _, o := range c.cluster.All() {
		if !c.idle() && c.behind(o) {
			return false
		}
	}
	return true
}

func (c *controller) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.paused
}

// reconcile does one step for what is under the key by now.
func (c *controller) reconcile(k resource.Key) {
	o, ok := c.cluster.Get(k)
	switch {
	case !ok || c.idle() || !c.behind(o):
	case o.Deleting:
		c.cluster.Finish(k)
	default:
		c.cluster.Edit(k, func(o *resource.Object) {
			o.Parts[resource.Status] = statusOf(o.Parts[resource.Spec])
			if mark := o.Parts[resource.RefreshMark]; mark != "" {
				c.count(c.fresh, o.Key.Name+" "+mark)
				o.Parts[resource.RefreshMark] = ""
			}
			switch op := o.Parts[resource.Operation]; {
			case op == "":
			case resource.OperationTerminating(o.Parts[resource.OpState]):
				o.Parts[resource.Operation] = ""
				o.Parts[resource.OpState] = resource.FailedOperation(op, "Operation terminated", time.Time{}, time.Time{})
			default:
				c.count(c.runs, o.UID+" "+op)
				o.Parts[resource.Operation] = ""
				o.Parts[resource.OpState] = finished(op)
			}
		})
	}
}

// counts returns how often each request was run.
func (c *controller) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.runs)
}

// refreshes returns how often each object was refreshed, by its name and the mark.
func (c *controller) refreshes() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.fresh)
}

func (c *controller) count(of map[string]int, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of[what]++
}

// statusOf is the status of an Application with this spec: it holds the same number.
func statusOf(spec string) string {
	return resource.Canonical(map[string]any{"n": numberIn(spec), "sync": map[string]any{"status": "Synced"}})
}

// finished is the state of an operation that has succeeded.
func finished(operation string) string {
	op, err := resource.Decode(operation)
	if err != nil {
		op = fmt.Sprint("not readable: ", err)
	}
	return resource.Canonical(map[string]any{"phase": "Succeeded", "operation": op})
}
