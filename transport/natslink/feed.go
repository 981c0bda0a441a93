package natslink

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// maxHold bounds how long a peer can have its ask held.
const maxHold = time.Minute

// A feed answers the peer, who keeps a copy of the log, what it lacks. It answers one
// ask at a time: the reader has only one open, and a newer one replaces it.
type feed struct {
	log     logShelf
	hello   hello
	peer    *peer
	from    string                            // prefix of where the peer awaits answers; "" is that it cannot name another's place
	offend  func(error)                       // told what no peer of this program asks
	again   func()                            // told that an ask of this side may be lost
	held    func(number uint64, at time.Time) // told which ask of this side waits at the peer
	zap     *zap.Logger
	squeeze *squeezer
	asks    chan asked    // holds the newest
	more    chan struct{} // holds one element once the log has grown or was lost
	heard   hello         // what the peer has said of itself last; of take

	holding atomic.Uint64 // the number of the ask that waits here; 0 if none does, or it has none
}

// An asked is an ask that waits for its answer.
type asked struct {
	ask
	reply *nats.Msg
}

// newFeed returns the feed of a Link, whose puller it gets to know.
func newFeed(c linkConfig, h hello, with *peer, p *puller) *feed {
	return &feed{
		log: c.log, hello: h, peer: with, from: c.inbox, offend: c.offend, zap: c.zap, squeeze: c.squeeze,
		again: func() { signal(p.interrupt) }, held: p.held,
		asks: make(chan asked, 1), more: make(chan struct{}, 1),
	}
}

// take takes in an ask. It is called by one goroutine, that of the subscription.
func (f *feed) take(m *nats.Msg) {
	a, err := unmarshalAsk(m.Data)
	if err == nil && !strings.HasPrefix(m.Reply, f.from) {
		err = fmt.Errorf("natslink: it asks to be answered on %.80q", m.Reply)
		f.offend(err)
	}
	if err != nil {
		f.zap.Debug("refused what the peer asks", zap.Error(err))
		return
	}
	if !f.knows(&a) {
		f.answer(&asked{a, m}, answer{Hello: f.hello, Upto: a.Have})
		return
	}
	now := time.Now()
	f.peer.says(a.Hello, now)
	if a.Again {
		f.again()
	}
	if a.brief != nil {
		f.held(a.brief.holds, now)
	}
	f.holding.Store(a.number())
	for {
		select {
		case f.asks <- asked{a, m}:
			return
		default:
		}
		select {
		case <-f.asks:
		default:
		}
	}
}

// knows completes a brief ask, and reports whether it is known who asks.
func (f *feed) knows(a *ask) bool {
	if a.brief == nil {
		f.heard = a.Hello
		return true
	}
	a.Have.Epoch = "" // it has none
	if m := a.brief.log; m != 0 {
		a.Have.Epoch = unknownLog
		if epoch := f.log.end().Epoch; m == markOf(epoch) {
			a.Have.Epoch = epoch
		}
	}
	if a.brief.from != markOf(f.heard.Link) {
		a.brief.knows = 0 // it is to be told who is here
		return false
	}
	a.Hello = f.heard
	return true
}

// unknownLog is the name of no log.
const unknownLog = "?"

// grown notes that the log has changed.
func (f *feed) grown() {
	signal(f.more)
}

// run answers until ctx is done, and then says goodbye.
func (f *feed) run(ctx context.Context) {
	var open *asked
	var said spoken
	repeat := time.NewTimer(maxHold)
	defer repeat.Stop()
	hold := time.NewTimer(maxHold)
	defer hold.Stop()
	again := time.NewTimer(maxHold)
	defer again.Stop()
	for {
		select {
		case a := <-f.asks:
			open, said = &a, spoken{}
			hold.Reset(min(time.Duration(a.Hold)*time.Millisecond, maxHold))
		case <-f.more:
		case <-again.C:
		case <-repeat.C:
			if a, pause := said.again(); a != nil {
				f.repeat(ctx, a)
				repeat.Reset(pause)
			}
		case <-hold.C:
			if open != nil {
				f.answer(open, answer{Hello: f.hello, Upto: open.Have})
				said, open = spoken{to: open}, nil
				repeat.Reset(repeatAfter)
			}
		case <-ctx.Done():
			if open != nil {
				f.answer(open, answer{Hello: f.hello, Upto: open.Have, Bye: true})
			}
			return
		}
		if open == nil {
			continue
		}
		switch served, err := f.serve(ctx, open); {
		case err != nil && ctx.Err() == nil:
			f.zap.Warn("cannot read the log", zap.Error(err))
			again.Reset(readAgain)
		case served:
			said, open = spoken{to: open}, nil
			repeat.Reset(repeatAfter)
		}
	}
}

// An answer is said again after repeatAfter, and a few times more, each time later, to a peer who does not
// ask for what follows: where servers are between the two ends, one that goes takes along what is under
// way, and neither end sees a connection break. Who has had the answer drops it; who stores it still does
// too.
const (
	repeatAfter = 2 * time.Second
	repeats     = 3
)

// A spoken is an answer that was given, and after which the peer has not asked again.
type spoken struct {
	to    *asked
	times int // it was said again
}

// again returns what is to be answered again, nil if nothing is, and after which pause it may be once more.
func (s *spoken) again() (a *asked, pause time.Duration) {
	if s.to == nil || s.times == repeats {
		return nil, 0
	}
	s.times++
	return s.to, repeatAfter << s.times
}

// repeat answers a with what the log holds now.
func (f *feed) repeat(ctx context.Context, a *asked) {
	switch served, err := f.serve(ctx, a); {
	case err != nil && ctx.Err() == nil:
		f.zap.Warn("cannot read the log", zap.Error(err))
	case err == nil && !served:
		f.answer(a, answer{Hello: f.hello, Upto: a.Have})
	}
}

// readAgain is after how long a log that could not be read is tried again.
const readAgain = 250 * time.Millisecond

// serve answers a if there is something that it lacks, and reports whether it has.
func (f *feed) serve(ctx context.Context, a *asked) (served bool, err error) {
	end := f.log.end()
	have := a.Have
	if have.Epoch != end.Epoch || have.Seq > end.Seq {
		have = position{Epoch: end.Epoch} // of another log, or of one that was set back
	}
	f.log.had(a.Have)
	if a.Have == end {
		return false, nil
	}
	b, err := f.log.read(ctx, have.Seq+1)
	if err != nil {
		return false, err
	}
	upto := end.Seq
	if n := len(b.rows); n > 0 && (b.more || b.rows[n-1].seq > upto) {
		upto = b.rows[n-1].seq
	}
	f.answer(a, answer{Hello: f.hello, Upto: position{end.Epoch, upto}, rows: b.rows})
	return true, nil
}

func (f *feed) answer(a *asked, with answer) {
	f.holding.CompareAndSwap(a.number(), 0)
	with.named = a.brief == nil || a.brief.knows != markOf(f.hello.Link)
	data, err := with.answers(a.ask, f.squeeze)
	if err == nil {
		err = a.reply.Respond(data)
	}
	if err != nil {
		f.zap.Debug("cannot answer the peer", zap.Error(err))
	}
}
