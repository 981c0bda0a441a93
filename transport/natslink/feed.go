package natslink

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// maxHold bounds how long a peer can have its ask held.
const maxHold = time.Minute

// A feed answers the peer, who keeps a copy of the log, what it lacks. It answers one
// ask at a time: the reader has only one open, and a newer one replaces it.
type feed struct {
	log    logShelf
	hello  hello
	peer   *peer
	from   string      // prefix of where the peer awaits answers; "" is that it cannot name another's place
	offend func(error) // told what no peer of this program asks
	again  func()      // told that an ask of this side may be lost
	zap    *zap.Logger
	asks   chan asked    // holds the newest
	more   chan struct{} // holds one element once the log has grown or was lost
}

// An asked is an ask that waits for its answer.
type asked struct {
	ask
	reply *nats.Msg
}

func newFeed(log logShelf, h hello, p *peer, from string, offend func(error), again func(), z *zap.Logger) *feed {
	return &feed{log: log, hello: h, peer: p, from: from, offend: offend, again: again, zap: z, asks: make(chan asked, 1), more: make(chan struct{}, 1)}
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
	f.peer.says(a.Hello, time.Now())
	if a.Again {
		f.again()
	}
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
	data, err := with.marshal()
	if err == nil {
		err = a.reply.Respond(data)
	}
	if err != nil {
		f.zap.Debug("cannot answer the peer", zap.Error(err))
	}
}
