package session

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// carryOut writes or removes an object, and tells the Engine the outcome after the effect.
// The Engine has at most one such action under way for each key.
func (s *Session) carryOut(ctx context.Context, t task) {
	began, removed := time.Now(), false
	var done engine.Wrote
	var err error
	switch a := t.act.(type) {
	case engine.Write:
		var stored resource.Object
		if stored, err = s.cfg.Store.Write(ctx, a.Object); err != nil && ctx.Err() != nil {
			return // what became of it the next process will see
		}
		done = s.outcome(a.Object.Key, "write", err)
		if err == nil {
			done.Object = &stored
		}
	case engine.Remove:
		if err = s.cfg.Store.Remove(ctx, a.Key, a.Version); err != nil && ctx.Err() != nil {
			return
		}
		done, removed = s.outcome(a.Key, "remove", err), true
	}
	if done.Outcome == engine.Done {
		s.cfg.Paces.Write.note(t.seen)
	}
	s.wrote(done, removed, began, err)
	// A Store shows the effect to a running watch before it returns. If there is none the
	// next one shows it, with all else.
	if s.listing.wait(ctx) == nil {
		s.put(ctx, done, nil) // it fails only when the session ends
	}
}

// outcome returns what err means.
func (s *Session) outcome(k resource.Key, act string, err error) engine.Wrote {
	done := engine.Wrote{Key: k}
	if err == nil {
		if entry := s.cfg.Log.Check(zap.DebugLevel, "object done"); entry != nil {
			entry.Write(zap.String("act", act), zap.Stringer("key", k))
		}
		s.failing.ends(k)
		s.counts.done.Add(1)
		return done
	}
	log := s.cfg.Log.With(zap.String("act", act), zap.Stringer("key", k))
	switch {
	case errors.Is(err, backend.ErrConflict):
		log.Debug("object overtaken")
		s.counts.overtaken.Add(1)
		return done
	case errors.Is(err, backend.ErrWithheld):
		done.Outcome = engine.Withheld
		s.counts.withheld.Add(1)
		log.Debug("object withheld")
		return done
	case errors.Is(err, backend.ErrRefused):
		done.Outcome = engine.Refused
		log.Warn("object refused", zap.Error(err))
	case s.failing.begins(k):
		done.Outcome = engine.Failed
		log.Warn("object failed, and is tried again", zap.Error(err))
	default:
		done.Outcome = engine.Failed
		log.Debug("object failed again", zap.Error(err))
	}
	s.counts.trouble(done.Outcome)
	done.Text = plain(err)
	return done
}

// plain returns the text of err as it may travel.
func plain(err error) string { return strings.ToValidUTF8(err.Error(), "\uFFFD") }

// A keySet is a set of keys that many use.
type keySet struct {
	mu   sync.Mutex
	keys map[resource.Key]bool
}

// begins puts a key into the set, and reports whether it was not in it.
func (s *keySet) begins(k resource.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.keys = map[resource.Key]bool{}
	}
	news := !s.keys[k]
	s.keys[k] = true
	return news
}

func (s *keySet) ends(k resource.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, k)
}
