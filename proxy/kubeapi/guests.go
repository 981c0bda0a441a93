package kubeapi

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

// A guest is a caller whose request is under way.
type guest struct {
	request *http.Request // whose context ends with leave
	since   time.Time
	agent   string // whose cluster he is let to
	leave   context.CancelFunc
}

// guests are all of them, so that who is let in no more can be shown out.
type guests struct {
	mu    sync.Mutex
	turns int // how often all were looked at
	all   map[*guest]bool
}

// turn returns how often all were looked at.
func (g *guests) turn() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.turns
}

// enter adds one who was let in since a turn; false if all were looked at since, without him.
func (g *guests) enter(one *guest, turn int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.turns != turn {
		return false
	}
	if g.all == nil {
		g.all = map[*guest]bool{}
	}
	g.all[one] = true
	return true
}

func (g *guests) left(one *guest) {
	one.leave()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.all, one)
}

// look begins a turn, and returns all who are to be looked at.
func (g *guests) look() []*guest {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turns++
	return slices.Collect(maps.Keys(g.all))
}

// welcome lets a caller in, whose request is that of the guest from then on, until he has left.
func (h *Hub) welcome(r *http.Request) (*guest, error) {
	one := &guest{since: time.Now()}
	for {
		turn := h.guests.turn()
		var err error
		if one.agent, err = h.cfg.Name(r, one.since); err != nil {
			return nil, err
		}
		ctx, leave := context.WithCancel(r.Context())
		one.request, one.leave = r.WithContext(ctx), leave
		if h.guests.enter(one, turn) {
			return one, nil
		}
		leave()
	}
}

// Recheck ends what is under way of callers who would not be let in any more, or not to the same
// agent's cluster. It is to be called when that may have come to be. What has expired since a
// request began does not end it.
func (h *Hub) Recheck() {
	for _, one := range h.guests.look() {
		if agent, err := h.cfg.Name(one.request, one.since); err != nil || agent != one.agent {
			h.cfg.Log.Warn("a caller of a spoke's API is let in no more: his request ends", zap.String("agent", one.agent), zap.String("from", one.request.RemoteAddr), zap.String("path", one.request.URL.Path), zap.Error(err))
			one.leave()
		}
	}
}
