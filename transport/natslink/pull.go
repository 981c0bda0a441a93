package natslink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// maxBackoff bounds the pause after an attempt that has failed for other reasons than
// that the peer is away.
const maxBackoff = 5 * time.Second

// A puller keeps the copy of the peer's log: it asks for what follows, stores it, and
// hands it on. The messages themselves say how far the copy is, so that it is neither
// ahead of nor behind what it says, whatever is lost.
//
// It is owned by one goroutine, but for what is marked as shared.
type puller struct {
	copy    copyShelf
	prefix  string // of the subjects of what is there
	ask     string // the subject that the peer answers on
	wire    wire
	hello   hello
	peer    *peer
	mailbox *mailbox
	zap     *zap.Logger
	hold    time.Duration // for how long an ask waits at the peer, who says something each time it ends
	trust   time.Duration // the same of one that the peer itself says that it waits there; see voucher
	holds   func() uint64 // which ask of the peer waits here
	squeeze *squeezer

	reachable func() bool
	offend    func(error) // told what no peer of this program says

	have position // in the peer's log
	base uint64   // what is added to a place in the copy, to grow across lost copies
	at   uint64   // the last place given

	warned time.Time // when the log was told last that something was dropped

	told   hello         // the peer's, whose Link has been told ours; zero if none has
	number uint64        // of the last brief ask
	waited time.Duration // for how long the last ask was to wait
	voucher

	stale bool // storing has failed or the copy was lost, so have may not be what is in it

	interrupt chan struct{} // shared: holds one element when the open ask is of no use
	recheck   chan struct{} // shared: holds one element when the copy was lost
	waits     atomic.Int64  // shared: since when it asks in vain, in Unix nanoseconds; 0 if it does not
	doubts    atomic.Bool   // shared: the peer is to be told that what it has said may be lost
	dropped   atomic.Uint64 // shared: messages that were none
	behind    atomic.Uint64 // shared: messages of the last answer that have not been stored
}

// run gives what the copy holds, then Replayed, and keeps the copy until ctx is done.
func (p *puller) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; failures++ {
		err := p.replay(ctx)
		if err == nil {
			break
		}
		p.pause(ctx, failures, "cannot read the copy", err)
	}
	p.give(ctx, transport.Delivery{Event: transport.Replayed, Ack: func() {}})
	for failures := 0; ctx.Err() == nil; {
		if err := p.step(ctx); err != nil {
			p.pause(ctx, failures, "cannot follow the peer's log", err)
			failures++
			continue
		}
		failures = 0
	}
}

// waiting returns since when the puller asks in vain, now if it does not.
func (p *puller) waiting(now time.Time) time.Time {
	if since := p.waits.Load(); since != 0 {
		return time.Unix(0, since)
	}
	return now
}

// pause waits after a failure, longer each time and for a random part of it, or until
// the peer says something.
func (p *puller) pause(ctx context.Context, failures int, what string, err error) {
	limit := min(maxBackoff, 100*time.Millisecond<<min(failures, 10))
	var heard <-chan struct{}
	switch {
	case errors.Is(err, errAway): // one that is heard can be asked
		limit, heard = 200*time.Millisecond, p.peer.heard
	case ctx.Err() == nil && !errors.Is(err, transport.ErrFull) && p.copy.usable() == nil: // which is alarmed
		p.zap.Warn(what, zap.Error(err), zap.Int("failures", failures+1))
	}
	t := time.NewTimer(limit/2 + rand.N(limit/2))
	defer t.Stop()
	select {
	case <-t.C:
	case <-heard:
	case <-ctx.Done():
	}
}

// replay gives what the copy holds and was not given yet, and learns how far it is.
func (p *puller) replay(ctx context.Context) error {
	end := p.copy.end().Seq
	from := p.at - p.base + 1
	p.have = position{}
	return each(ctx, p.copy, max(1, min(from, end)), func(r row) error {
		p.have = positionOf(r)
		if r.seq < from {
			return nil
		}
		m, err := p.decode(r)
		if err != nil {
			p.drop(r, err)
			return nil
		}
		return p.value(ctx, m, r.seq)
	})
}

// positionOf returns the place in the peer's log of a row of the copy.
func positionOf(r row) position {
	seq, err := strconv.ParseUint(r.header.Get(seqHeader), 10, 64)
	if err != nil {
		return position{} // not ours: begin again
	}
	return position{r.header.Get(epochHeader), seq}
}

func (p *puller) decode(r row) (transport.Message, error) {
	return decode(p.prefix, &nats.Msg{Subject: p.prefix + r.tail, Header: r.header, Data: r.data})
}

// drop drops what is no message. The peer must have made it by other means than ours.
func (p *puller) drop(r row, err error) {
	total := p.dropped.Add(1)
	if time.Since(p.warned) > warnInterval {
		p.warned = time.Now()
		p.zap.Warn("dropped what is no message", zap.Error(err), zap.Uint64("seq", r.seq), zap.Uint64("dropped", total))
	}
	p.offend(err)
}

func (p *puller) value(ctx context.Context, m transport.Message, seq uint64) error {
	p.at = max(p.at, p.base+seq)
	return p.give(ctx, transport.Delivery{Event: transport.Value, Message: m, At: p.base + seq, Ack: func() {}})
}

func (p *puller) give(ctx context.Context, d transport.Delivery) error {
	select {
	case p.mailbox.values <- d:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errAway says that nobody can be asked.
var errAway = errors.New("peer is away")

// step asks once, and stores what it is answered.
func (p *puller) step(ctx context.Context) error {
	lost := false
	select {
	case <-p.recheck:
		lost, p.stale = true, true // also if this attempt fails, half way
	default:
	}
	if lost || (p.stale && p.copy.usable() == nil) {
		if err := p.again(ctx); err != nil {
			return err
		}
	}
	asked := time.Now()
	p.waits.CompareAndSwap(0, asked.UnixNano())
	a, err := p.request(ctx)
	if !errors.Is(err, errAway) {
		p.waits.Store(0)
	}
	if err != nil {
		return err
	}
	if a.Bye {
		p.peer.leaves(a.Hello)
		return errAway
	}
	p.peer.says(a.Hello, time.Now())
	if a.Upto.Epoch == p.have.Epoch && a.Upto.Seq < p.have.Seq {
		p.zap.Warn("the peer's log was set back", zap.Uint64("had", p.have.Seq), zap.Uint64("has", a.Upto.Seq))
	}
	if err := p.store(ctx, a); err != nil {
		p.stale = true
		return err
	}
	news := len(a.rows) > 0 || a.Upto.Epoch != p.have.Epoch
	p.have = a.Upto
	if !news && time.Since(asked) < p.waited/2 {
		return errIdle
	}
	return nil
}

// errIdle says that a peer answers at once although it has nothing to say.
var errIdle = errors.New("peer answers without need")

// request asks the peer for what follows. It gives up when the link is gone.
func (p *puller) request(ctx context.Context) (answer, error) {
	if !p.reachable() {
		return answer{}, errAway
	}
	doubts := p.doubts.Load()
	q := p.next(doubts)
	data, err := q.marshal()
	if err != nil {
		return answer{}, err
	}
	p.waited = time.Duration(q.Hold) * time.Millisecond
	select {
	case <-p.interrupt: // meant for an ask before
	default:
	}
	p.asks(q, p.hold, time.Now())
	defer p.asks(ask{}, p.hold, time.Time{})
	m, err := p.wire.request(ctx, p.ask, data, p.waited+p.hold, p.interrupt)
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, errUnanswered), ctx.Err() != nil:
		return answer{}, errAway
	case err != nil:
		return answer{}, fmt.Errorf("natslink: ask the peer: %w", err)
	}
	if doubts {
		p.doubts.Store(false) // it was heard
	}
	a, err := unmarshalAnswer(m.Data, q, p.told, p.squeeze)
	if err != nil {
		p.offend(err)
		return a, err
	}
	switch {
	case q.brief == nil && a.Hello.Reads >= readsBrief:
		p.told = a.Hello
	case a.named: // it reads none, or does not know who has asked
		p.told = hello{}
	}
	return a, nil
}

// next returns the next ask, which is brief if the peer knows who asks.
func (p *puller) next(doubts bool) ask {
	a := ask{Hello: p.hello, Have: p.have, Hold: p.hold.Milliseconds(), Again: doubts}
	if p.told.Link == "" || p.told.Link != p.peer.end() {
		return a
	}
	a.Hold = p.voucher.hold(p.hold, p.trust).Milliseconds()
	p.number++
	a.brief = &brief{from: markOf(p.hello.Link), knows: markOf(p.told.Link), log: markOf(p.have.Epoch), number: p.number, holds: p.holds()}
	return a
}

// held takes in which of our asks waits at the peer, as it says.
func (p *puller) held(number uint64, at time.Time) {
	if !p.vouch(number, at) {
		return
	}
	if since := p.waits.Load(); since != 0 {
		p.waits.CompareAndSwap(since, at.UnixNano()) // it has carried what the peer says, so it is not in vain
	}
}

// store puts the rows of a into the copy, and gives them to the reader.
func (p *puller) store(ctx context.Context, a answer) error {
	all := make([]*nats.Msg, 0, len(a.rows))
	messages := make([]transport.Message, 0, len(a.rows))
	for _, r := range a.rows {
		m, err := p.decode(r)
		if err != nil {
			p.drop(r, err)
			continue
		}
		all = append(all, p.stored(r, position{a.Upto.Epoch, r.seq}))
		messages = append(messages, m)
	}
	p.behind.Store(uint64(len(all)))
	err := p.copy.extend(ctx, all, func(i int, seq uint64) error {
		if err := p.value(ctx, messages[i], seq); err != nil {
			return err
		}
		p.behind.Add(^uint64(0))
		return nil
	})
	if err == nil {
		p.behind.Store(0)
	}
	return err
}

// stored returns r, which nobody else has, as it is put into the copy: nothing of its headers but the
// event's and the digest, since others would tell the server to do something.
func (p *puller) stored(r row, at position) *nats.Msg {
	for k, values := range r.header {
		if strings.HasPrefix(k, ceHeader) || k == digestHeader {
			r.header[k] = values[:1]
		} else {
			delete(r.header, k)
		}
	}
	r.header.Set(epochHeader, at.Epoch)
	r.header.Set(seqHeader, strconv.FormatUint(at.Seq, 10))
	return &nats.Msg{Subject: p.prefix + r.tail, Header: r.header, Data: r.data}
}

// again looks at what the copy holds after something went wrong with it, and makes it
// anew if it was lost.
func (p *puller) again(ctx context.Context) error {
	lost, err := p.copy.recover(ctx)
	if err != nil {
		return err
	}
	if lost {
		p.zap.Warn("the copy was lost; it is filled again from the peer's log")
		p.base = p.at
	}
	if err := p.replay(ctx); err != nil {
		return err
	}
	p.stale = false
	return nil
}
