package natslink

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// epochKey is where a stream's metadata keeps the name of what it holds.
const epochKey = "fabric-epoch"

// dedupe is how long a stream remembers the id of a message that was sent to it twice.
const dedupe = 30 * time.Second

// A streamConfig says what one stream is.
type streamConfig struct {
	agent    string // whose it is
	part     string // partLog or partCopy
	name     string
	dir      string        // of the store
	prefix   string        // of its subjects
	maxBytes int64         // beyond which it takes no more
	maxRows  int64         // the same, of keys: the server keeps each in memory
	age      time.Duration // after which it may forget a tombstone
}

// A stream is one log or one copy: a stream of the local JetStream that keeps the last
// message of each key. It is opened by newStream and may be used by many goroutines.
type stream struct {
	streamConfig
	vault *vault
	js    jetstream.JetStream
	cond  *condition
	kick  chan struct{} // holds one element when it is to be made anew

	tail     tail   // of a log
	home     string // its directory, if it is on this machine
	messages string // where in it the messages are

	remake sync.RWMutex // held for writing while the stream is made anew
	mu     sync.Mutex
	epoch  string
	last   uint64 // the highest sequence that is known to be in it
	sent   uint64 // ids given out
	health health
}

// newStream opens the stream, and makes it if need be. A stream of that name with other
// settings is brought to these where that loses nothing, and refused otherwise.
func newStream(ctx context.Context, v *vault, js jetstream.JetStream, c streamConfig) (*stream, error) {
	s := &stream{streamConfig: c, vault: v, js: js, cond: newCondition(v.store), kick: make(chan struct{}, 1)}
	s.home = filepath.Join(v.home, c.name)
	s.messages = filepath.Join(s.home, "msgs")
	// A machine that starts a whole fleet is slow, and to ask again makes it slower. Elsewhere a server may
	// be gone that was asked.
	patience := startPatience
	if !s.here() {
		patience = requestPatience
	}
	if err := s.callFor(ctx, patience, s.open); err != nil {
		s.cond.drop()
		return nil, noRoom(fmt.Errorf("natslink: open stream %s: %w", c.name, err))
	}
	v.use(s)
	return s, nil
}

func (s *stream) settings(epoch string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              s.name,
		Subjects:          []string{s.prefix + ">"},
		Retention:         jetstream.LimitsPolicy,
		Storage:           jetstream.FileStorage,
		Discard:           jetstream.DiscardNew,
		MaxMsgsPerSubject: 1,
		MaxBytes:          s.maxBytes,
		MaxMsgs:           s.maxRows,
		MaxMsgSize:        maxPayload,
		MaxConsumers:      -1,
		Duplicates:        dedupe,
		Replicas:          s.vault.replicas,
		AllowDirect:       true,
		AllowMsgTTL:       true,
		Metadata:          map[string]string{epochKey: epoch},
	}
}

func (s *stream) open(ctx context.Context) error {
	found, err := s.js.Stream(ctx, s.name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		found, err = s.create(ctx)
	}
	if err != nil {
		return err
	}
	info := found.CachedInfo()
	if err := s.reconcile(ctx, info.Config); err != nil {
		return err
	}
	var home os.FileInfo
	if s.here() {
		if home, err = os.Stat(s.home); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch, s.last = info.Config.Metadata[epochKey], info.State.LastSeq
	s.health.home = home
	return nil
}

// create makes the stream. It tries again for a while when the directory of all streams
// is gone: the server removes it with the last of them, and a moment later than it says.
func (s *stream) create(ctx context.Context) (jetstream.Stream, error) {
	for {
		made, err := s.js.CreateStream(ctx, s.settings(rand.Text()))
		var api *jetstream.APIError
		switch {
		case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse): // by an attempt whose response was lost
			return s.js.Stream(ctx, s.name)
		case !errors.As(err, &api) || api.ErrorCode != errCodeStoreCreate:
			return made, err
		}
		if sleep(ctx, 100*time.Millisecond) != nil {
			return nil, err
		}
	}
}

// errCodeStoreCreate is JetStream's code for a stream whose directory cannot be made.
const errCodeStoreCreate = 10049

// reconcile brings the settings of a stream that was found to what they must be. What is
// unsafe and cannot be changed, such as a queue that drops what was read, is refused.
func (s *stream) reconcile(ctx context.Context, found jetstream.StreamConfig) error {
	epoch := found.Metadata[epochKey]
	if epoch == "" || found.Retention != jetstream.LimitsPolicy || found.Storage != jetstream.FileStorage ||
		found.Mirror != nil || len(found.Sources) > 0 || found.Sealed || found.NoAck {
		return fmt.Errorf("%w: a stream of that name has settings that would lose messages (retention %s, storage %s)",
			transport.ErrStore, found.Retention, found.Storage)
	}
	want := s.settings(epoch)
	if found.MaxMsgsPerSubject == 1 && found.Discard == want.Discard && found.MaxBytes == want.MaxBytes &&
		found.MaxMsgs == want.MaxMsgs && found.MaxAge == 0 && found.MaxMsgSize == want.MaxMsgSize && found.AllowDirect &&
		found.AllowMsgTTL && len(found.Subjects) == 1 && found.Subjects[0] == want.Subjects[0] &&
		(want.Replicas == 0 || found.Replicas == want.Replicas) {
		return nil
	}
	if want.Replicas == 0 {
		want.Replicas = found.Replicas
	}
	if _, err := s.js.UpdateStream(ctx, want); err != nil {
		return fmt.Errorf("%w: correct its settings: %w", transport.ErrStore, err)
	}
	return nil
}

// end returns the place of the last message that is known to be in s.
func (s *stream) end() position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return position{s.epoch, s.last}
}

// advance notes that what is at p has been stored.
func (s *stream) advance(epoch string, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch == epoch && s.last < seq {
		s.last = seq
	}
}

// id returns an id that no other message of this stream has.
func (s *stream) id(process string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent++
	return fmt.Sprintf("%s.%s.%d", s.epoch, process, s.sent)
}

// check finds out whether what s holds is still there. If it was lost, by a stream that
// was deleted, purged or set back, it begins the stream anew, under another epoch.
func (s *stream) check(ctx context.Context) (lost bool, err error) {
	before := s.end()
	intact, err := s.intact(ctx, before)
	if err != nil || intact {
		return false, err
	}
	s.remake.Lock()
	defer s.remake.Unlock()
	if s.end().Epoch != before.Epoch {
		return false, nil // another call has begun it anew
	}
	if err := s.renew(ctx); err != nil {
		return false, fmt.Errorf("natslink: begin stream %s anew: %w", s.name, err)
	}
	return true, nil
}

// renew empties the stream and gives it another epoch. It is emptied rather than deleted:
// the server breaks down when a stream is made while one of that name is being removed
// from the disk. So a stream that somebody has deleted is given time to be gone.
//
// One whose files are gone or have failed can only be deleted.
func (s *stream) renew(ctx context.Context) error {
	condemned := s.condemned()
	var deleted bool
	err := s.call(ctx, func(ctx context.Context) error {
		found, err := s.js.Stream(ctx, s.name)
		if err == nil && !condemned {
			return s.empty(ctx, found)
		}
		deleted = true
		if err == nil {
			err = s.js.DeleteStream(ctx, s.name)
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		return err
	})
	if err == nil && deleted {
		if err := sleep(ctx, goneAfter); err != nil {
			return err
		}
		err = s.call(ctx, s.open)
	}
	if err == nil {
		s.well()
	}
	return err
}

func (s *stream) empty(ctx context.Context, found jetstream.Stream) error {
	if err := found.Purge(ctx); err != nil {
		return err
	}
	if _, err := s.js.UpdateStream(ctx, s.settings(rand.Text())); err != nil {
		return err
	}
	return s.open(ctx)
}

// goneAfter is how long a stream that is being deleted may take to be gone.
const goneAfter = time.Second

// intact reports whether the stream holds what it did when it ended at p.
//
// A replica that has just become the leader may not have read all of it yet, so servers elsewhere
// are asked more than once before something is taken for lost.
func (s *stream) intact(ctx context.Context, p position) (bool, error) {
	for attempt := 1; ; attempt++ {
		whole, err := s.holds(ctx, p)
		if whole || err != nil || s.here() || attempt == lossAttempts || s.end() != p {
			return whole, err
		}
		if err := sleep(ctx, lossPause); err != nil {
			return false, err
		}
	}
}

// Bounds of how long a loss elsewhere is doubted.
const (
	lossAttempts = 4
	lossPause    = 700 * time.Millisecond
)

// holds is intact as it looks now.
func (s *stream) holds(ctx context.Context, p position) (bool, error) {
	if s.condemned() {
		return false, nil
	}
	found, err := s.look(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("natslink: look at stream %s: %w", s.name, err)
	}
	info := found.CachedInfo()
	purged := p.Seq > 0 && info.State.Msgs == 0
	return info.Config.Metadata[epochKey] == p.Epoch && info.State.LastSeq >= p.Seq && !purged, nil
}

// look returns the stream as it is now.
func (s *stream) look(ctx context.Context) (found jetstream.Stream, err error) {
	err = s.call(ctx, func(ctx context.Context) (err error) {
		found, err = s.js.Stream(ctx, s.name)
		return err
	})
	return found, err
}

// ttl returns the options with which m is stored: a tombstone may be forgotten one day.
func (s *stream) ttl(m *nats.Msg) []jetstream.PublishOpt {
	if s.age > 0 && m.Header.Get(digestHeader) == "" {
		return []jetstream.PublishOpt{jetstream.WithMsgTTL(s.age)}
	}
	return nil
}

// storeError says what the store meant in the words of package transport.
func storeError(err error) error {
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum), errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", transport.ErrTooLarge, err)
	case errors.As(err, &api) && isFull(api.ErrorCode) && api.Description != storeClosed:
		return fmt.Errorf("%w: %w", transport.ErrFull, err)
	}
	return err
}

// noRoom adds what to do to an error with which a stream was not made, if it is that there is no room.
func noRoom(err error) error {
	if errors.Is(storeError(err), transport.ErrFull) {
		return fmt.Errorf("%w: the streams of each agent reserve three times the quota (--nats-quota): lower it, or give the server more (--nats-max-store; of servers elsewhere max_file_store, and the limits of the account %s)", err, hubAccount)
	}
	return err
}

// storeClosed is what the server says of a stream that is being closed.
const storeClosed = "store is closed"

// isFull reports whether a JetStream error code says that there is no room: of the
// server, of the account, or, the last, of the stream or of its disk.
func isFull(code jetstream.ErrorCode) bool {
	switch code {
	case 10023, 10028, 10047, 10002, 10077:
		return true
	}
	return false
}

// refresh learns where s ends now. Only its writer may call it.
func (s *stream) refresh(ctx context.Context) error {
	found, err := s.look(ctx)
	if err != nil {
		return fmt.Errorf("natslink: look at stream %s: %w", s.name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = found.CachedInfo().State.LastSeq
	return nil
}
