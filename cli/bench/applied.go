package bench

import (
	"slices"
	"sync"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
)

// An applied is what the agents' process has told of what was written.
type applied struct {
	more chan struct{} // holds an element if there is more since it was last empty

	mu     sync.Mutex
	writes []fleet.Write
	newest []int // the highest number that was written of each Application
	over   bool  // nothing more is expected
}

func newApplied(apps int) *applied {
	return &applied{more: make(chan struct{}, 1), newest: make([]int, apps)}
}

func (a *applied) take(writes []fleet.Write) {
	if len(writes) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writes = append(a.writes, writes...)
	for _, w := range writes {
		a.newest[w.App] = max(a.newest[w.App], w.N)
	}
	select {
	case a.more <- struct{}{}:
	default:
	}
}

// have reports whether the last change of each Application was written.
func (a *applied) have(last []int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Equal(a.newest, last)
}

// all returns every write, in the order in which they returned.
func (a *applied) all() []fleet.Write {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.writes)
}

// close says that the agents' process is about to end.
func (a *applied) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
}

func (a *applied) closed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.over
}
