package chaos

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A controller stands for Argo CD's on a spoke, as far as objects show of it: Applications get
// the status of their spec, what is asked for is seen to run and then to have ended, some of it
// only once it is terminated, and what is deleted loses the finalizer, for which an Argo CD would delete what it has deployed.
type controller struct {
	site site

	mu       sync.Mutex
	runs     map[string]int  // how often each operation has ended well
	ended    map[string]int  // how often each was terminated
	renewals map[string]int  // how often each Application was refreshed
	pruned   map[string]bool // UIDs of originals in whose name all that was deployed is deleted
}

func newController(s site) *controller {
	return &controller{site: s, runs: map[string]int{}, ended: map[string]int{}, renewals: map[string]int{}, pruned: map[string]bool{}}
}

// run plays until ctx is done.
func (c *controller) run(ctx context.Context) error {
	for ctx.Err() == nil {
		w, err := c.site.in(resource.Application).Watch(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for e := range w.ResultChan() {
			u, ok := e.Object.(*unstructured.Unstructured)
			if !ok || u.GetKind() != string(resource.Application) || strings.HasPrefix(u.GetName(), bystander) || e.Type == "DELETED" {
				continue
			}
			err := c.look(ctx, u)
			if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
				w.Stop()
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// look does what is left to do for an Application that is like this. If it no longer is, what
// it has become is shown next.
func (c *controller) look(ctx context.Context, u *unstructured.Unstructured) error {
	var done func()
	switch {
	case u.GetDeletionTimestamp() != nil:
		if !cascades(u) {
			return nil
		}
		u.SetFinalizers(slices.DeleteFunc(u.GetFinalizers(), argos))
		done = func() { c.pruned[original(u)] = true }
	default:
		if done = c.work(u); done == nil {
			return nil
		}
	}
	_, err := c.site.in(resource.Application).Update(ctx, u, metav1.UpdateOptions{})
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		done()
	}
	return err
}

// work changes an Application to what it is to become next, and returns what to note then, or
// nil if nothing is left to do.
func (c *controller) work(u *unstructured.Unstructured) func() {
	now := time.Now().UTC().Format(time.RFC3339)
	status, _ := u.Object["status"].(fields)
	status = maps.Clone(status)
	if status == nil {
		status = fields{}
	}
	u.Object["status"] = status
	running, _ := status["operationState"].(fields)
	asked, same := requested(u, "operation"), false
	if asked != "" {
		same = requested(u, "status", "operationState", "operation") == asked
	}
	finish := func(phase, message string) {
		running = maps.Clone(running)
		running["phase"], running["finishedAt"], running["message"] = phase, now, message
		status["operationState"] = running
		delete(u.Object, "operation")
	}
	switch {
	case u.GetAnnotations()[refreshMark] != "":
		marks := u.GetAnnotations()
		delete(marks, refreshMark)
		u.SetAnnotations(marks)
		status["reconciledAt"] = now
		return func() { c.renewals[u.GetName()]++ }
	case same && running["phase"] == "Terminating":
		finish("Failed", "Operation terminated")
		return func() { c.ended[asked]++ }
	case asked != "" && (!same || running["phase"] != "Running"):
		status["operationState"] = fields{"phase": "Running", "operation": u.Object["operation"], "startedAt": now, "message": "it runs"}
		return func() {}
	case asked != "" && !strings.HasPrefix(asked, endless):
		finish("Succeeded", "successfully synced")
		return func() { c.runs[asked]++ }
	case at(u, "status", "sync", "revision") != at(u, "spec", "source", "targetRevision"):
		status["sync"] = fields{"status": "Synced", "revision": at(u, "spec", "source", "targetRevision")}
		status["health"] = fields{"status": "Healthy"}
		return func() {}
	}
	return nil
}

// original returns the UID of the original of what is here.
func original(u *unstructured.Unstructured) string {
	if uid := u.GetAnnotations()[sourceMark]; uid != "" {
		return uid
	}
	return string(u.GetUID())
}
