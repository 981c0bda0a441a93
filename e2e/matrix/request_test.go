package matrix

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func projects(w *world) {
	owner, other := w.owner(), w.other()
	owner.inProject("shop", "retail")
	w.sees("the Application is there", other.is(other.app("shop"), anything))
	owner.describes("retail", "late")
	described := func(text string) func(resource.Object) error {
		return func(o resource.Object) error {
			if !strings.Contains(o.Parts[resource.Spec], `"description":"`+text+`"`) {
				return fmt.Errorf("it says %s", o.Parts[resource.Spec])
			}
			return nil
		}
	}
	w.sees("so is its project", other.is(other.project("retail"), described("late")))
	w.agree()
	w.cut()
	owner.describes("retail", "edited")
	other.describes("retail", "mine")
	w.heal()
	w.sees("the edit arrives, and what people did there is undone", other.is(other.project("retail"), described("edited")))
	w.agree()
	owner.removes(owner.project("retail"))
	owner.deletes("shop")
	w.sees("both go", other.lacks(other.project("retail"), other.app("shop")))
}

func anything(resource.Object) error { return nil }

func synced(w *world) {
	w.owner().makes("shop")
	w.agree()
	w.cut()
	w.hub.requests("shop", "7")
	w.owner().labels("shop", "team", "blue") // an edit does not merge the request away
	w.heal()
	w.sees("it has run", w.ran(1, "7"))
	w.agree()
	w.restart(w.spoke)
	w.restart(w.hub)
	w.hub.requests("shop", "7")
	w.sees("so has another one of the same words", w.ran(2, "7"))
	w.stop(w.spoke)
	w.hub.requests("shop", "8")
	w.start(w.spoke)
	w.sees("and one that the agent was away for", w.ran(1, "8"))
	w.agree()
	w.restart(w.hub)
	w.sees("each has run once", w.ran(2, "7"), w.ran(1, "8"))
}

// ran checks how often syncs of shop to a revision were run, and that the hub shows the last.
func (w *world) ran(times int, revision string) check {
	return w.hub.is(w.hub.app("shop"), func(o resource.Object) error {
		n := 0
		for request, times := range w.controller.ran() {
			if strings.Contains(request, `"revision":"`+revision+`"`) {
				n += times
			}
		}
		switch state := o.Parts[resource.OpState]; {
		case n != times:
			return fmt.Errorf("syncs to %s have run %d times", revision, n)
		case o.Parts[resource.Operation] != "", !strings.Contains(state, `"phase":"Succeeded"`):
			return fmt.Errorf("it says %s %s", o.Parts[resource.Operation], state)
		}
		return nil
	})
}

func refreshed(w *world) {
	w.owner().makes("shop")
	w.agree()
	w.hub.refreshes("shop")
	w.sees("it is done, and the mark goes", w.hub.is(w.hub.app("shop"), func(o resource.Object) error {
		if mark := o.Parts[resource.RefreshMark]; mark != "" {
			return fmt.Errorf("the mark is %q", mark)
		}
		if !strings.Contains(o.Parts[resource.Status], `"reconciledAt"`) {
			return fmt.Errorf("its status is %s", o.Parts[resource.Status])
		}
		return nil
	}))
	require.Equal(w.t, 1, w.controller.refreshed("shop"))
}
