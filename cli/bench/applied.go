package bench

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"
)

// An applied is what the agent's process has told.
type applied struct {
	more  chan struct{} // holds an element if there is more since it was last empty
	ended chan struct{} // closed when the agent has told how it stands in the end

	mu     sync.Mutex
	writes []write
	newest []int // the highest number that was written of each Application
	end    end
	now    now    // as it was told last
	url    string // of the API server
}

func newApplied(apps int) *applied {
	return &applied{more: make(chan struct{}, 1), ended: make(chan struct{}), newest: make([]int, apps)}
}

// listen takes in notes until they end.
func (a *applied) listen(from io.Reader) error {
	notes := json.NewDecoder(from)
	for {
		var n note
		if err := notes.Decode(&n); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		a.take(n)
	}
}

func (a *applied) take(n note) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writes = append(a.writes, n.Writes...)
	for _, w := range n.Writes {
		a.newest[w.App] = max(a.newest[w.App], w.N)
	}
	if n.Server != "" {
		a.url = n.Server
	}
	if n.Now != nil {
		a.now = *n.Now
	}
	if n.End != nil {
		a.end = *n.End
		close(a.ended)
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
func (a *applied) all() []write {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.writes)
}

// footprint returns what the agent's process took of memory when it told last.
func (a *applied) footprint() Footprint {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now.Footprint
}

// count returns how many Applications its cluster had then.
func (a *applied) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now.Apps
}

// server returns where the agent's API server is, once it has told.
func (a *applied) server() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.url
}
