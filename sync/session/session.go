// Package session keeps a Store in step with the peer at the other end of a Link: it runs
// one engine.Engine, feeds it with what the two show, and does what it decides.
//
// One goroutine, the loop, owns the Engine, and never waits: what is to be sent goes to an
// outbox, what is to be written to a ready queue, both with the last value of each key only
// and with workers of their own, so that one slow object delays nothing but itself.
// Everything that happens comes to the loop over one channel without a buffer: a loop that
// is behind slows down its store and its link, and memory is bounded by the number of keys.
//
// Failures of the store's watch and of the link are tried again, later and later, and told
// to the log once when they begin and once when they have ended.
package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/seal"
	"github.com/argocd-fabric/argocd-agent/sync/trail"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// Config is what a Session is made of. Engine, Store and Link are needed.
type Config struct {
	Engine  engine.Config
	Store   backend.Store
	Scope   backend.Scope // of the objects in Store that are kept in step
	Link    transport.Link
	Tick    time.Duration // how long things settle before differences are looked into; 0 is 2 s
	Workers int           // how many objects are written at once; 0 is 64
	Log     *zap.Logger   // nil is none
	// NewID returns an id that no other event of this side's log has; nil is a random text and a
	// number.
	NewID func() string
	// Key is ours for what is secret, the same for as long as its place lives; the zero Key
	// is one of this Session alone, for which all that is secret travels anew. It is used only
	// where something secret travels.
	Key seal.Key
	// Protocol is the versions that this side speaks, as it says in its Presence; zero is all
	// that the wire has, see wire.Spoken.
	Protocol wire.Range
	// Letters keeps what cannot be taken in or handed over, for as long as that is so. nil
	// keeps it in memory.
	Letters *ledger.Book
	// Paces counts how fast this Session is, beside others; nil is nobody.
	Paces *Paces
	// Witness is told what becomes of each object's changes; nil is nobody.
	Witness trail.Witness
	// Observe, if set, is called by the loop with each event after the Engine has taken it in.
	// It must neither wait nor change or keep the Engine.
	Observe func(engine.Event, *engine.Engine)
}

// A Session is one side of one link at work.
type Session struct {
	cfg     Config
	inputs  chan input
	inspect chan func(*engine.Engine)
	started atomic.Bool
	done    chan struct{}             // closed when the loop has ended
	pair    atomic.Pointer[seal.Pair] // of our key and the peer's; nil until that is known
	speech  *versions

	outbox  *crew[outgoing]
	ready   *crew[task]
	letters *letters
	failing keySet // objects whose last write has failed
	listing *listing
	opener  *opener
	health  *health
	counts  counts
}

// New returns a Session that is not running.
func New(c Config) (*Session, error) {
	switch {
	case c.Store == nil, c.Link == nil:
		return nil, errors.New("session: a store and a link are needed")
	case c.Engine.Self == "":
		return nil, errors.New("session: our own identity is needed")
	case c.Engine.Peer != "" && c.Engine.Peer != c.Link.Peer():
		return nil, fmt.Errorf("session: the link is to %s, not to %s", c.Link.Peer(), c.Engine.Peer)
	case c.Tick < 0, c.Workers < 0:
		return nil, fmt.Errorf("session: tick %v and workers %d must not be negative", c.Tick, c.Workers)
	case c.Protocol.Oldest > c.Protocol.Newest, c.Protocol.Oldest < 0:
		return nil, fmt.Errorf("session: there are no versions %s", c.Protocol)
	}
	if err := wire.CheckSource(c.Engine.Self); err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	c.Tick = cmp.Or(c.Tick, 2*time.Second)
	c.Workers = cmp.Or(c.Workers, 64)
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Paces == nil {
		c.Paces = &Paces{}
	}
	c.Protocol = cmp.Or(c.Protocol, wire.Spoken())
	if c.NewID == nil {
		c.NewID = numbered(rand.Text()[:20])
	}
	if c.Letters == nil {
		c.Letters = ledger.InMemory().Book(c.Link.Peer())
	}
	if slices.ContainsFunc(c.Engine.Rules.Kinds(), resource.Kind.Sealed) {
		if c.Key.Zero() {
			k, err := seal.New()
			if err != nil {
				return nil, fmt.Errorf("session: %w", err)
			}
			c.Key = k
		}
		c.Engine.Public = string(c.Key.Public())
	}
	s := &Session{
		cfg:     c,
		inputs:  make(chan input),
		inspect: make(chan func(*engine.Engine)),
		done:    make(chan struct{}),
		speech:  newVersions(c.Protocol),
		listing: newListing(),
		opener:  newOpener(),
		health:  newHealth(c.Log),
	}
	s.letters = newLetters(c, s.health, &s.pair)
	s.outbox = newCrew(senders, s.send)
	s.ready = newCrew(c.Workers, s.carryOut)
	return s, nil
}

// Run keeps Store in step with the peer until ctx is done or the Link is closed, and
// returns the cause. It is called once, and ends all that it has begun.
func (s *Session) Run(ctx context.Context) error {
	if s.started.Swap(true) {
		return errors.New("session: it runs, or has run")
	}
	g, ctx := errgroup.WithContext(ctx)
	defer s.ready.wait()
	defer s.outbox.wait()
	defer s.letters.clerk.wait()
	defer s.awaitList()()
	s.opener.start(func() { g.Go(func() error { return s.open(ctx) }) })
	for _, part := range []func(context.Context) error{s.watch, s.receive} {
		g.Go(func() error { return part(ctx) })
	}
	err := s.loop(ctx) // here, as a principal has many sessions: until a part fails, or it is to end
	if failed := g.Wait(); failed != nil {
		return failed
	}
	return err
}

// A Status says how a session stands.
type Status struct {
	Engine    engine.Status
	Running   bool
	Connected bool               // the peer's process answers
	Since     time.Time          // when Connected changed last; zero if it never did
	Peer      transport.Presence // of the peer's process that answers, or that answered last
	// Refusal is why the peer's process that answers, or answered last, is not understood; nil
	// if it is.
	Refusal error
	// Err is what fails now, or the Refusal; nil if nothing does.
	Err         error
	DeadLetters int // what cannot be taken in or handed over now
	Counts      Counts
}

// Status returns how the session stands. It may be called at any time.
func (s *Session) Status() Status {
	st := s.health.status()
	st.DeadLetters, st.Counts = s.cfg.Letters.Count(), s.counts.now()
	if !s.started.Load() {
		return st
	}
	st.Running = s.look(context.Background(), func(e *engine.Engine) { st.Engine = e.Status() }) == nil
	st.Engine.InStep = st.Engine.InStep && st.Refusal == nil // its word may be another by now
	return st
}

// Plan returns what this side would change in its store by now, see engine.Plan, and whether
// it knows the whole of the peer's table.
func (s *Session) Plan(ctx context.Context) (all []engine.Change, whole bool, err error) {
	err = s.look(ctx, func(e *engine.Engine) { all, whole = e.Plan(time.Now()), e.InStep() })
	if err != nil {
		return nil, false, fmt.Errorf("session: plan: %w", err)
	}
	return all, whole, nil
}

// Known returns those of keys that the peer names, or of which there is a copy.
func (s *Session) Known(ctx context.Context, keys []resource.Key) (known []resource.Key, err error) {
	err = s.look(ctx, func(e *engine.Engine) {
		known = slices.DeleteFunc(slices.Clone(keys), func(k resource.Key) bool { return !e.Knows(k) })
	})
	if err != nil {
		return nil, fmt.Errorf("session: look for objects: %w", err)
	}
	return known, nil
}

// Account returns how an object stands on this side.
func (s *Session) Account(ctx context.Context, k resource.Key) (a engine.Account, err error) {
	if err = s.look(ctx, func(e *engine.Engine) { a = e.Account(time.Now(), k) }); err != nil {
		return a, fmt.Errorf("session: look at %s: %w", k, err)
	}
	return a, nil
}

// Named returns the keys of a kind with a name of which there is anything to say.
func (s *Session) Named(ctx context.Context, kind resource.Kind, name string) (keys []resource.Key, err error) {
	if err = s.look(ctx, func(e *engine.Engine) { keys = e.Named(kind, name) }); err != nil {
		return nil, fmt.Errorf("session: look for %s %s: %w", kind, name, err)
	}
	return keys, nil
}

// errEnded says that nothing can be asked of a Session any more.
var errEnded = errors.New("it has ended")

// look has the loop show the Engine to f, and returns once it has.
func (s *Session) look(ctx context.Context, f func(*engine.Engine)) error {
	seen := make(chan struct{})
	select {
	case s.inspect <- func(e *engine.Engine) { f(e); close(seen) }:
		<-seen // the loop waits for nothing
		return nil
	case <-s.done:
		return errEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Approve has the copies removed that this side or the peer holds back. of is the digest of
// their list, see engine.HeldDigest: what is held by now is approved only if it is still
// that.
func (s *Session) Approve(ctx context.Context, of resource.Digest) error {
	return s.tell(ctx, "approve deletions", engine.Approved{Of: of})
}

// Retry has what could not be done for a key, as it stands in a letter, tried again.
func (s *Session) Retry(ctx context.Context, key string) error {
	k, ok := resource.ParseKey(key)
	if !ok {
		return fmt.Errorf("session: retry %q: it is no object's: it comes again by itself, or not at all", key)
	}
	return s.Again(ctx, k)
}

// Again has what was Withheld of an object, or could not be done, tried again.
func (s *Session) Again(ctx context.Context, k resource.Key) error {
	return s.tell(ctx, "retry "+k.String(), engine.Retry{Key: k})
}

// Confirm takes in that the peer's process says to have had a whole table of ours, which that of
// Status.Engine.Has is on its side.
func (s *Session) Confirm(ctx context.Context, table engine.Whole) error {
	return s.tell(ctx, "take in what the peer has", engine.Confirmed{Has: table})
}

// tell gives the Engine what a user wants.
func (s *Session) tell(ctx context.Context, what string, ev engine.Event) error {
	select {
	case s.inputs <- input{event: ev}:
		return nil
	case <-s.done:
		return fmt.Errorf("session: %s: %w", what, errEnded)
	case <-ctx.Done():
		return fmt.Errorf("session: %s: %w", what, context.Cause(ctx))
	}
}
