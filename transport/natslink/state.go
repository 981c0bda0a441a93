package natslink

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A State says how a Link is now. Receive may still have to tell what has changed.
type State struct {
	Connected bool      // there is a connection, and behind it the Link is open: also if the peer is silent
	UpSince   time.Time // when the peer's process was first heard, zero if it is away
	LastHeard time.Time // when it was heard last, zero if it never was
	Log       StreamState
	Copy      StreamState
	Behind    uint64 // messages that have arrived and are not in the copy yet
	Dropped   uint64 // messages from the peer that were none, since the Link was opened
}

// A StreamState says what a stream holds.
type StreamState struct {
	Stream   string // its name on this side's server
	Epoch    string
	Messages uint64
	Bytes    uint64 // on disk
	LastSeq  uint64 // how many messages have ever been put into it
	Quota    int64  // bytes
}

// State returns how the Link to an agent is. The Link must be open.
func (h *Hub) State(ctx context.Context, agent string) (State, error) {
	h.mu.Lock()
	l := h.links[agent]
	h.mu.Unlock()
	if l == nil {
		return State{}, fmt.Errorf("natslink: state of %.80q: %w", agent, transport.ErrClosed)
	}
	return l.state(ctx)
}

// State returns how the Link to the principal is. The Link must be open.
func (l *Leaf) State(ctx context.Context) (State, error) {
	open, err := l.opened()
	if err != nil {
		return State{}, err
	}
	return open.link.state(ctx)
}

func (l *Leaf) opened() (*dialed, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		return nil, fmt.Errorf("natslink: leaf: %w", transport.ErrClosed)
	}
	return l.open, nil
}

func (l *link) state(ctx context.Context) (State, error) {
	s := State{
		Connected: l.with.open(),
		Behind:    l.puller.behind.Load(),
		Dropped:   l.puller.dropped.Load(),
	}
	s.UpSince, s.LastHeard = l.with.state()
	var err error
	if s.Log, err = l.log.state(ctx); err != nil {
		return State{}, err
	}
	s.Copy, err = l.copy.state(ctx)
	return s, err
}

func (s *stream) state(ctx context.Context) (StreamState, error) {
	found, err := s.look(ctx)
	if err != nil {
		return StreamState{}, fmt.Errorf("natslink: state of stream %s: %w", s.name, cause(ctx, err))
	}
	info := found.CachedInfo()
	return StreamState{
		Stream: s.name, Epoch: info.Config.Metadata[epochKey],
		Messages: info.State.Msgs, Bytes: info.State.Bytes, LastSeq: info.State.LastSeq, Quota: info.Config.MaxBytes,
	}, nil
}

// A Counts counts, at the server, the messages that are put into a copy, by the type of
// their CloudEvents. It also sees what is replaced at once by a later message.
type Counts struct {
	sub *nats.Subscription

	mu     sync.Mutex
	byType map[string]int
	more   chan struct{} // closed and replaced at each message
}

// Count counts what arrives from an agent from now on, until Stop.
func (h *Hub) Count(ctx context.Context, agent string) (*Counts, error) {
	if err := h.serving.Wait(ctx); err != nil {
		return nil, err
	}
	return newCounts(h.store(agent).Conn(), names{agent}.up())
}

// Count counts what arrives from the principal from now on, until Stop. The Link must be
// open.
func (l *Leaf) Count(context.Context) (*Counts, error) {
	open, err := l.opened()
	if err != nil {
		return nil, err
	}
	return newCounts(open.store, names{l.config.Agent}.down())
}

func newCounts(nc *nats.Conn, prefix string) (*Counts, error) {
	c := &Counts{byType: map[string]int{}, more: make(chan struct{})}
	sub, err := nc.Subscribe(prefix+">", c.add)
	if err == nil {
		err = sub.SetPendingLimits(-1, -1)
	}
	if err == nil {
		err = nc.FlushTimeout(readPatience)
	}
	if err != nil {
		return nil, fmt.Errorf("natslink: count %s: %w", prefix, err)
	}
	c.sub = sub
	return c, nil
}

func (c *Counts) add(m *nats.Msg) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byType[m.Header.Get(ceHeader+"type")]++
	close(c.more)
	c.more = make(chan struct{})
}

// ByType returns how many have arrived of each type.
func (c *Counts) ByType() map[string]int {
	all, _ := c.look()
	return all
}

// Wait waits until ok says so of what has arrived of each type.
func (c *Counts) Wait(ctx context.Context, ok func(map[string]int) bool) error {
	for {
		all, more := c.look()
		if ok(all) {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return fmt.Errorf("natslink: counted %v: %w", all, context.Cause(ctx))
		}
	}
}

func (c *Counts) look() (map[string]int, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]int, len(c.byType))
	for k, n := range c.byType {
		all[k] = n
	}
	return all, c.more
}

// Stop ends the counting.
func (c *Counts) Stop() {
	_ = c.sub.Unsubscribe() // fails only once the connection is closed
}
