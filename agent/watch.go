package agent

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/session"
)

// interval is how often an Agent looks at how its session stands. A principal that has not
// answered for longer is told to the log.
const interval = 5 * time.Second

// watch tells the log, until ctx is done, what a user must know and would not see.
func (a *Agent) watch(ctx context.Context) {
	look := time.NewTicker(interval)
	defer look.Stop()
	var w watcher
	for {
		select {
		case <-look.C:
			for _, n := range w.look(a.Status()) {
				a.cfg.Log.Warn(n.message, n.fields...)
			}
		case <-ctx.Done():
			return
		}
	}
}

// A watcher remembers what has been told.
type watcher struct {
	silent int             // at how many looks the principal has not answered
	held   resource.Digest // of the copies that are held
}

// A notice is what the log is to be told.
type notice struct {
	message string
	fields  []zap.Field
}

// look returns what is to be told of a session that stands like this.
func (w *watcher) look(s session.Status) (notices []notice) {
	if w.silent++; s.Connected {
		w.silent = 0
	}
	if w.silent == 2 {
		notices = append(notices, notice{"the principal does not answer", []zap.Field{
			zap.String("advice", "it is away, or refuses this agent: then its log says why. What was last heard of it stays in force"),
		}})
	}
	held := s.Engine.Held
	of := engine.HeldDigest(held)
	if len(held) > 0 && of != w.held {
		notices = append(notices, notice{"deletions are held", []zap.Field{
			zap.Int("copies", len(held)), zap.Stringer("first", held[0].Key),
			zap.String("advice", "the control plane lacks so many Applications that it may have been lost or restored: make them there again, or approve it there (argocd-agentctl agent approve-deletions)"),
		}})
	}
	w.held = of
	return notices
}
