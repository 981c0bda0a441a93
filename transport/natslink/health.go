package natslink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A health is what is known of how well a stream is. The stream's lock guards it.
type health struct {
	home    os.FileInfo // the directory that it was opened in
	whole   time.Time   // when the messages in it were seen last
	changed time.Time   // when anything there, but not deeper, had been made or removed by then
	doomed  bool        // it is to be made anew
	ill     bool        // a trouble other than quota was begun, and not ended
	tried   time.Time   // when it was last had go on, after which it has not failed
	refused int         // the size of the largest message that there was no room for; 0 is none
}

// whats are the troubles that a stream may have, other than that of its quota.
var whats = []string{" failing", " read-only", " lost"}

// The trouble of a stream whose quota is used up.
const quotaTrouble = " quota"

func (s *stream) trouble(what string) origin { return origin{s.agent, s.part + what} }

// here reports whether the stream is on this machine's disk.
func (s *stream) here() bool { return s.vault.home != "" }

// room returns ErrFull if a message of size bytes would leave too little free space. Servers
// elsewhere see to their own disks.
func (s *stream) room(size int) error {
	if !s.here() {
		return nil
	}
	return s.vault.disk.room(s.dir, size, time.Now())
}

// probe makes sure that files can be made where the messages are.
func (s *stream) probe() error { return probe(s.messages) }

// glance looks at what is cheap to see.
func (s *stream) glance(ctx context.Context, now time.Time) {
	s.mu.Lock()
	h := s.health
	s.mu.Unlock()
	switch err := s.moved(h, now); {
	case h.doomed:
		signal(s.kick)
	case err != nil:
		s.condemn(" lost", err)
	case h.ill && !h.tried.IsZero() && now.Sub(h.tried) > trial:
		s.well()
	}
	if h.refused > 0 {
		s.review(ctx, h.refused)
	}
}

// moved returns an error if the files of the stream are not where they were. Where nothing was made or
// removed since they were seen, they need not be looked for each time.
func (s *stream) moved(h health, now time.Time) error {
	if !s.here() || !s.remake.TryRLock() {
		return nil // we cannot see them, or they are being made anew
	}
	defer s.remake.RUnlock()
	found, err := os.Stat(s.home)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return err
	case err != nil:
		return nil // whatever else it is, it is not gone
	case !os.SameFile(h.home, found):
		return fmt.Errorf("%s is another directory than before", s.home)
	case found.ModTime().Equal(h.changed) && now.Sub(h.whole) < lookEvery:
		return nil
	}
	if _, err = os.Stat(s.messages); errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.health.whole, s.health.changed = now, time.Time{}
	if now.Sub(found.ModTime()) > trusted { // else there may be two changes that look like one
		s.health.changed = found.ModTime()
	}
	return nil
}

// trusted is how old a change must be for the next to have another time.
const trusted = 3 * time.Second

// spoil has nothing put into the stream any more.
func (s *stream) spoil(what string, err error) {
	s.mu.Lock()
	s.health.ill, s.health.tried = true, time.Time{}
	s.mu.Unlock()
	for _, other := range whats {
		if other != what {
			s.vault.troubles.end(s.trouble(other))
		}
	}
	s.vault.troubles.begin(s.trouble(what), err)
	s.cond.spoil(fmt.Errorf("natslink: stream %s: %w", s.name, err))
}

// condemn has the stream made anew.
func (s *stream) condemn(what string, err error) {
	s.spoil(what, err)
	s.doom(err)
}

// doom has the stream made anew, without a word.
func (s *stream) doom(err error) {
	s.mu.Lock()
	s.health.doomed = true
	s.mu.Unlock()
	s.cond.spoil(fmt.Errorf("natslink: stream %s: %w", s.name, err))
	signal(s.kick)
}

func (s *stream) condemned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health.doomed
}

// try has messages put into the stream again, and takes it for well when that works.
func (s *stream) try(now time.Time) {
	s.mu.Lock()
	s.health.tried = now
	s.mu.Unlock()
	s.cond.mend()
}

// well notes that the stream works.
func (s *stream) well() {
	s.mu.Lock()
	s.health.doomed, s.health.ill, s.health.tried = false, false, time.Time{}
	s.mu.Unlock()
	s.cond.mend()
	for _, what := range whats {
		s.vault.troubles.end(s.trouble(what))
	}
}

// took notes what became of a message of size bytes that was put into the stream.
func (s *stream) took(size int, err error) {
	s.mu.Lock()
	h := &s.health
	full := errors.Is(err, transport.ErrFull)
	ended := err == nil && h.refused > 0 && size >= h.refused
	recovered := err == nil && h.ill && !h.doomed
	switch {
	case full:
		h.refused = max(h.refused, size)
	case ended:
		h.refused = 0
	}
	s.mu.Unlock()
	switch {
	case full:
		s.vault.troubles.begin(s.trouble(quotaTrouble), err)
	case ended:
		s.vault.troubles.end(s.trouble(quotaTrouble))
	}
	if recovered {
		s.well()
	}
}

// review ends the trouble of the quota once a message as large as was refused would fit.
func (s *stream) review(ctx context.Context, size int) {
	ctx, cancel := context.WithTimeout(ctx, glanceEvery)
	defer cancel()
	found, err := s.look(ctx)
	if err != nil {
		return // the next time
	}
	info := found.CachedInfo()
	if info.State.Bytes+uint64(size)+rowOverhead > uint64(info.Config.MaxBytes) || info.State.Msgs >= uint64(info.Config.MaxMsgs) {
		return
	}
	s.mu.Lock()
	s.health.refused = 0
	s.mu.Unlock()
	s.vault.troubles.end(s.trouble(quotaTrouble))
}

// rowOverhead is what a message takes on disk beyond its subject, headers and data.
const rowOverhead = 64
