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
// is listed and the copy replayed, and again after each time that either begins anew. That is
// seldom, so nothing waits for it: who brings what was missing has it begun.
type opener struct {
	mu               sync.Mutex
	begin            func() // has it told, by a goroutine of its own, until told says that it need not be again
	listed, replayed bool
	again            bool // it is to be told again
	busy             bool // it is being told
}

func newOpener() *opener { return &opener{again: true} }

// start says how it begins to be told. Nothing does before.
func (o *opener) start(begin func()) {
	o.note(func() { o.begin = begin })
}

func (o *opener) storeListed()  { o.note(func() { o.listed = true }) }
func (o *opener) copyReplayed() { o.note(func() { o.replayed = true }) }
func (o *opener) reopen()       { o.note(func() { o.again = true }) }

func (o *opener) note(what func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	what()
	if o.begin != nil && o.listed && o.replayed && o.again && !o.busy {
		o.again, o.busy = false, true
		o.begin()
	}
}

// told takes in that it was told. It reports whether it is to be told again.
func (o *opener) told() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy, o.again = o.again, false
	return o.busy
}

func (o *opener) isListed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.listed
}

// How long the store may take to be listed before that is told.
const unlistedFor = 10 * time.Second

var errUnlisted = errors.New("the objects of this side cannot be listed yet: its log says why")

// awaitList says so if the store takes long to be listed: until then nothing is kept in step, whatever
// the peer says.
func (s *Session) awaitList() (done func() bool) {
	return time.AfterFunc(unlistedFor, func() {
		if !s.opener.isListed() {
			s.health.note("list", "", errUnlisted)
			if s.opener.isListed() { // just now, which has been noted, perhaps before
				s.health.note("list", "", nil)
			}
		}
	}).Stop
}

// open tells the Engine what the log holds, and again for as long as it is to be told.
func (s *Session) open(ctx context.Context) error {
	for {
		if err := s.retry(ctx, "read log", s.openOnce); err != nil {
			return err
		}
		if !s.opener.told() {
			return nil
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
