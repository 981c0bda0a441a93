package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// An opener says when the Engine is to be told what the link's log holds: once the store
// is listed and the copy replayed, and again after each time that either begins anew.
type opener struct {
	listed, replayed         chan struct{} // closed once that has happened
	listedOnce, replayedOnce sync.Once
	again                    chan struct{} // holds an element if it is to be told again
}

func newOpener() *opener {
	o := &opener{listed: make(chan struct{}), replayed: make(chan struct{}), again: make(chan struct{}, 1)}
	o.reopen()
	return o
}

func (o *opener) storeListed()  { o.listedOnce.Do(func() { close(o.listed) }) }
func (o *opener) copyReplayed() { o.replayedOnce.Do(func() { close(o.replayed) }) }

func (o *opener) reopen() {
	select {
	case o.again <- struct{}{}:
	default: // it is to be told anyway, and has not been read yet
	}
}

// How long the store may take to be listed before that is told.
const unlistedFor = 10 * time.Second

var errUnlisted = errors.New("the objects of this side cannot be listed yet: its log says why")

// awaitList waits until the store is listed, and says so if that takes long: until then nothing is
// kept in step, whatever the peer says.
func (s *Session) awaitList(ctx context.Context) error {
	late := time.NewTimer(unlistedFor)
	defer late.Stop()
	for {
		select {
		case <-s.opener.listed:
			s.health.note("list", "", nil)
			return nil
		case <-late.C:
			s.health.note("list", "", errUnlisted)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// open tells the Engine what the log holds whenever it is to be told.
func (s *Session) open(ctx context.Context) error {
	if err := s.awaitList(ctx); err != nil {
		return err
	}
	select {
	case <-s.opener.replayed:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for {
		select {
		case <-s.opener.again:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := s.retry(ctx, "read log", s.openOnce); err != nil {
			return err
		}
	}
}

// openOnce reads the log. What is sent meanwhile may be missing in it, and is sent again.
func (s *Session) openOnce(ctx context.Context) error {
	log, err := s.cfg.Link.Log(ctx)
	if err != nil {
		return err
	}
	recalled := s.recall(&log)
	opened, err := wire.Opened(log, s.cfg.Protocol, s.speech.opened(log))
	if err != nil {
		s.cfg.Log.Warn("own log is not readable as a whole: what it lacks is written again", zap.Error(err))
	}
	if recalled {
		delete(opened.Holds, engine.FuseKey) // the log does not say it: it is to be written
	}
	opened.Revision = s.listing.revision()
	return s.put(ctx, opened, nil)
}

// final reports whether err ends the session.
func final(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, transport.ErrClosed)
}
