package session

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A health knows what fails and who is there, and tells the log when that changes.
type health struct {
	log *zap.Logger

	mu      sync.Mutex
	failing map[string]map[string]failure // by what is done, and to what
	state   Status                        // without Engine and Err
}

type failure struct {
	err error
	at  time.Time
}

func newHealth(log *zap.Logger) *health {
	return &health{log: log, failing: map[string]map[string]failure{}}
}

// note says how the last attempt to do something to something ended. The act fails for as
// long as it does for one of its objects.
func (h *health) note(act, object string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := len(h.failing[act])
	if err == nil {
		delete(h.failing[act], object)
		if before == 1 && len(h.failing[act]) == 0 {
			h.log.Info("session succeeds again", zap.String("act", act))
		}
		return
	}
	if before == 0 {
		h.failing[act] = map[string]failure{}
		h.log.Warn("session fails, and tries again", zap.String("act", act), zap.Error(err))
	}
	h.failing[act][object] = failure{err, time.Now()}
}

// fails reports whether the last attempt to do something has failed for any object.
func (h *health) fails(act string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.failing[act]) > 0
}

// up says that the peer's process answers, and why it is not understood, if so.
func (h *health) up(p transport.Presence, refusal error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Connected, h.state.Since, h.state.Peer = true, time.Now(), p
	switch {
	case refusal == nil:
		h.log.Info("peer is there", zap.String("version", p.Version), zap.String("process", p.Process))
	case h.state.Refusal == nil || h.state.Refusal.Error() != refusal.Error():
		h.log.Error("peer is refused", zap.Error(refusal))
	}
	h.state.Refusal = refusal
}

func (h *health) down() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Connected, h.state.Since = false, time.Now()
	h.log.Info("peer is away")
}

func (h *health) status() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := h.state
	var last time.Time
	for _, objects := range h.failing {
		for _, f := range objects {
			if !f.at.Before(last) {
				st.Err, last = f.err, f.at
			}
		}
	}
	if h.state.Refusal != nil {
		st.Err = h.state.Refusal
	}
	return st
}
