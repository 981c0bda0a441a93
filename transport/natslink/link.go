package natslink

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// tick is how often a Link looks whether there is still a connection. It looks at a multiple of grain, as
// the others do, so that a process of many Links that have nothing to do wakes up for some at once.
const (
	tick  = 250 * time.Millisecond
	grain = tick / 10
)

// untilTick returns how long it is to the next look.
func untilTick(now time.Time) time.Duration { return now.Truncate(grain).Add(tick).Sub(now) }

// A linkConfig is what both ends of a Link need, each for its own side.
type linkConfig struct {
	name      string // of this side
	peer      string
	wire      wire // what reaches the peer; closed with the Link
	log       logShelf
	copy      copyShelf
	sent      string              // prefix of the subjects in the log
	heard     string              // the same of the copy
	answers   string              // subject on which the peer asks for the log
	asks      string              // subject on which the peer answers what the copy lacks
	says      string              // subject on which the peer hears of streams
	hears     string              // subject on which it speaks of streams
	inbox     string              // prefix of the subjects on which the peer awaits answers; "" is any
	reachable func() bool         // whether somebody answers on asks
	session   func() uint64       // names the connection to the peer; 0 is none
	sever     func(uint64)        // closes it; it is opened again by itself
	rival     func(time.Duration) // told for how long only the peer that is there should be let in
	offend    func(error)         // told what no peer of this program says
	presence  transport.Presence
	heartbeat time.Duration
	trust     time.Duration // for how long an ask waits that the peer says it has; it is a heartbeat on one side at least
	squeeze   *squeezer
	zap       *zap.Logger
	closing   func() // called when it begins to be
	closed    func() // called once the Link is closed
}

// A link is either end of a transport.Link.
type link struct {
	linkConfig
	hello   hello
	mailbox *mailbox
	with    *peer
	feed    *feed
	puller  *puller
	streams *streamer

	ctx    context.Context // until Close
	cancel context.CancelFunc
	parts  sync.WaitGroup
	close  sync.Once
}

func openLink(c linkConfig) (*link, error) {
	l := &link{linkConfig: c, mailbox: newMailbox()}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	p := c.presence
	l.hello = hello{Link: rand.Text(), Process: p.Process, Version: p.Version, Oldest: p.Oldest, Newest: p.Newest, Reads: readsBrief}
	l.streams = newStreamer(c, l.hello.Link)
	l.with = newPeer(l.mailbox, l.streams, c.reachable, 5*c.heartbeat/2, c.rival)
	l.puller = &puller{
		copy: c.copy, prefix: c.heard, ask: c.asks, wire: c.wire, hello: l.hello, peer: l.with, mailbox: l.mailbox, zap: c.zap,
		hold: c.heartbeat, trust: c.trust, squeeze: c.squeeze,
		reachable: c.reachable, offend: c.offend,
		interrupt: make(chan struct{}, 1), recheck: make(chan struct{}, 1),
	}
	l.feed = newFeed(c, l.hello, l.with, l.puller)
	l.puller.holds = l.feed.holding.Load
	asks, err := c.wire.Subscribe(c.answers, l.feed.take)
	if err == nil {
		err = asks.SetPendingLimits(16, -1) // the newest is all that is answered
	}
	if err == nil {
		err = l.hearStreams()
	}
	if err != nil {
		return nil, fmt.Errorf("natslink: link to %s: %w", c.peer, err)
	}
	l.parts.Go(func() { l.feed.run(l.ctx) })
	l.parts.Go(func() { l.puller.run(l.ctx) })
	l.parts.Go(func() { l.streams.run(l.ctx) })
	l.parts.Go(func() { l.watch() })
	return l, nil
}

// hearStreams has what the peer says of streams taken in.
func (l *link) hearStreams() error {
	sub, err := l.wire.Subscribe(l.hears, func(m *nats.Msg) { l.streams.take(m, l.with.lives) })
	if err != nil {
		return err
	}
	return sub.SetPendingLimits(-1, pendingPackets)
}

// Streams returns the live streams of the Link.
func (l *link) Streams() transport.Streams { return l.streams.mux }

// Peer returns the name of the other side.
func (l *link) Peer() string { return l.peer }

// Log returns what this side's stream holds.
func (l *link) Log(ctx context.Context) (transport.Log, error) {
	ctx, done, err := l.open(ctx)
	if err != nil {
		return transport.Log{}, err
	}
	defer done()
	rows := transport.Log{Rows: map[string]transport.Message{}}
	log, err := l.log.held(ctx, func(r row) error {
		m, err := decode(l.sent, &nats.Msg{Subject: l.sent + r.tail, Header: r.header, Data: r.data})
		if err != nil {
			return fmt.Errorf("natslink: log of link to %s: %w", l.peer, err)
		}
		rows.Put(m)
		return nil
	})
	if err != nil {
		return transport.Log{}, cause(ctx, err)
	}
	log.Rows = rows.Rows
	return log, nil
}

// Send puts m into this side's stream.
func (l *link) Send(ctx context.Context, m transport.Message) error {
	ctx, done, err := l.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	msg, err := encode(l.sent, m)
	if err == nil {
		err = l.append(ctx, msg)
	}
	if err != nil {
		return cause(ctx, fmt.Errorf("natslink: send %.80q to %s: %w", m.Key, l.peer, err))
	}
	return nil
}

// append stores m. A log that is found to be gone is made anew first, here or by whoever
// has noticed it at the same time.
func (l *link) append(ctx context.Context, m *nats.Msg) error {
	before := l.log.end().Epoch
	err := l.log.put(ctx, l.hello.Link, m)
	if errors.Is(err, errNoStream) {
		if lost := l.checkLog(ctx); lost || l.log.end().Epoch != before {
			err = l.log.put(ctx, l.hello.Link, m)
		}
	}
	if err == nil {
		l.feed.grown()
	}
	return err
}

// checkLog makes the log anew if it was lost, tells the reader, and reports it.
func (l *link) checkLog(ctx context.Context) bool {
	lost, err := l.log.check(ctx)
	if err != nil && ctx.Err() == nil && l.log.usable() == nil {
		l.zap.Warn("cannot check the log", zap.Error(err))
	}
	if lost {
		l.zap.Warn("the log was lost and is begun anew")
		l.mailbox.logLost()
		l.feed.grown()
	}
	return lost
}

// Receive returns what is next.
func (l *link) Receive(ctx context.Context) (transport.Delivery, error) {
	for {
		switch {
		case l.ctx.Err() != nil:
			return transport.Delivery{}, transport.ErrClosed
		case ctx.Err() != nil:
			return transport.Delivery{}, context.Cause(ctx)
		}
		if d, ok := l.mailbox.news(); ok {
			return d, nil
		}
		select {
		case d := <-l.mailbox.values:
			l.mailbox.taken(d)
			return d, nil
		case <-l.mailbox.changed:
		case <-l.ctx.Done():
		case <-ctx.Done():
		}
	}
}

// Close ends what belongs to the Link. What is stored stays.
func (l *link) Close() error {
	l.close.Do(func() {
		l.closing()
		l.cancel()
		l.parts.Wait()
		// Best effort: the goodbye. A peer that does not get it sees the link go.
		if l.reachable() {
			if err := l.wire.flush(time.Second); err != nil {
				l.zap.Debug("cannot say goodbye", zap.Error(err))
			}
		}
		l.wire.Close()
		l.closed()
	})
	return nil
}

// open returns ctx, done also when the Link is closed, and what to call after use. It
// returns an error if ctx is done already.
func (l *link) open(ctx context.Context) (context.Context, func(), error) {
	switch {
	case l.ctx.Err() != nil:
		return nil, nil, transport.ErrClosed
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(transport.ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }, nil
}

// cause returns why ctx is done, if it is, and err if not.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// watch looks whether the connection and the streams are still there.
func (l *link) watch() {
	next := time.NewTimer(untilTick(time.Now()))
	defer next.Stop()
	streams := time.NewTicker(4 * l.heartbeat)
	defer streams.Stop()
	var line line
	var bearing bearing
	for {
		select {
		case now := <-next.C:
			next.Reset(untilTick(now))
			linked, session := l.reachable(), l.session()
			l.with.look(now)
			l.streams.look(session, now)
			changed := line.look(linked, session, l.puller.waiting(now), now)
			if bearing.look(l.with.end(), l.wire.remade()) {
				l.puller.doubts.Store(true)
				changed = true
			}
			if changed || l.puller.doubted(l.heartbeat, now) {
				signal(l.puller.interrupt)
			}
			if line.useless(l.heartbeat, now) {
				l.zap.Warn("the connection carries nothing; it is opened again")
				l.sever(session)
			}
		case <-l.log.kicked():
			l.checkLog(l.ctx)
		case <-l.copy.kicked():
			signal(l.puller.recheck)
			signal(l.puller.interrupt)
		case <-streams.C:
			l.checkStreams()
		case <-l.ctx.Done():
			return
		}
	}
}

// checkStreams makes the log anew if it was lost, and has the puller do so with the copy.
func (l *link) checkStreams() {
	l.checkLog(l.ctx)
	whole, err := l.copy.whole(l.ctx)
	if err != nil && l.ctx.Err() == nil && l.copy.usable() == nil {
		l.zap.Warn("cannot check the copy", zap.Error(err))
	}
	if err == nil && !whole {
		signal(l.puller.recheck)
		signal(l.puller.interrupt)
	}
}

// signal makes c hold an element.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
