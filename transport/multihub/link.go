package multihub

import (
	"context"
	"errors"
	"sync"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A link is a transport.Link that goes over from carrier to carrier. Each of these has one
// goroutine here: that of the current one hands on what it receives, the others await the agent.
type link struct {
	hub   *Hub
	agent string
	out   chan arrival
	ctx   context.Context // done once the link is closed, or has failed; its cause says why
	end   context.CancelCauseFunc
	over  sync.WaitGroup
	turn  chan struct{} // held by who goes over
	told  told          // of who is current

	mu      sync.Mutex
	current *branch
	errs    error // of closing
}

// An arrival is what Receive returns.
type arrival struct {
	delivery transport.Delivery
	err      error
}

// What the reader has been told.
type told struct {
	replayed, up bool
	at           uint64 // the highest
}

// A branch is an open Link on one carrier.
type branch struct {
	carrier Carrier
	transport.Link
	ctx    context.Context // done once it is retired
	retire context.CancelFunc
	quiet  chan struct{} // closed once nothing of it is handed on any more
	base   uint64        // what is added to the places of its copy
}

func newLink(h *Hub, agent string, at int, first transport.Link) *link {
	l := &link{hub: h, agent: agent, out: make(chan arrival), turn: make(chan struct{}, 1)}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	l.current = l.branch(h.config.Carriers[at], first)
	for i, c := range h.config.Carriers {
		var open *branch
		if i == at {
			open = l.current
		}
		l.over.Go(func() { l.follow(c, open) })
	}
	return l
}

func (l *link) branch(c Carrier, on transport.Link) *branch {
	b := &branch{carrier: c, Link: on, quiet: make(chan struct{})}
	b.ctx, b.retire = context.WithCancel(l.ctx)
	return b
}

// follow has the link work on one carrier, until the link ends. Whenever the agent is not on
// it, nothing is kept there.
func (l *link) follow(c Carrier, b *branch) {
	for l.ctx.Err() == nil {
		if b == nil {
			on, err := l.hub.vacate(l.ctx, c, l.agent)
			if err != nil {
				l.end(transport.ErrClosed) // if it was not: this carrier is gone, and so is the Hub
				return
			}
			b = l.branch(c, on)
		}
		present := l.read(b)
		b.retire()
		close(b.quiet)
		err := b.Close()
		l.mu.Lock()
		l.errs = errors.Join(l.errs, err)
		l.mu.Unlock()
		if b == l.now() {
			l.end(transport.ErrClosed)
			return
		}
		b = nil
		if present { // two processes of one agent would take the link from each other without end
			_ = wait(l.ctx, rivalPause) // that ctx is done is seen above
		}
	}
}

// rivalPause is how long a process is not let in that was there when the agent went over to
// another carrier.
const rivalPause = 4 * firstPause

// read takes what b receives, until that is closed or retired. It reports whether the agent's
// process was there in the end.
func (l *link) read(b *branch) (present bool) {
	var early []transport.Delivery // before the agent's process came
	for current := b == l.now(); ; {
		d, err := b.Receive(b.ctx)
		switch {
		case b.ctx.Err() != nil, errors.Is(err, transport.ErrClosed):
			return present
		case err != nil && !current:
			l.hub.config.Log.Warn("agent is awaited on a transport that fails", zap.String("agent", l.agent), zap.String("transport", b.carrier.Name), zap.Error(err))
			if wait(b.ctx, firstPause) != nil {
				return present
			}
		case current || d.Event == transport.Up:
			present = d.Event == transport.Up || present && d.Event != transport.Down
			if !current && !l.goOver(b, early) {
				return present
			}
			current, early = true, nil
			if !l.hand(b, arrival{d, err}) {
				return present
			}
		case d.Event == transport.Value:
			early = append(early, d)
		}
	}
}

// goOver makes b the current branch, where the agent's process has come, and hands on what it
// has received before. It reports whether b was not retired meanwhile.
func (l *link) goOver(b *branch, early []transport.Delivery) bool {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-b.ctx.Done():
		return false
	}
	l.mu.Lock()
	old := l.current
	l.current = b
	l.mu.Unlock()
	old.retire()
	<-old.quiet
	log := l.hub.config.Log.With(zap.String("agent", l.agent), zap.String("from", old.carrier.Name), zap.String("to", b.carrier.Name))
	if l.told.up {
		log.Warn("agent has come on another transport while it was connected: if this comes again, two processes use its name: stop one")
	} else {
		log.Info("agent has come on another transport")
	}
	if err := l.hub.whereis.note(l.agent, b.carrier.Name); err != nil {
		log.Warn("it is not kept on which transport the agent is: after a restart it is looked for where it was", zap.Error(err))
	}
	b.base = l.told.at
	var news []transport.Delivery
	if !l.told.replayed {
		news = append(news, transport.Delivery{Event: transport.Replayed, Ack: ignored})
	}
	if l.told.up {
		news = append(news, transport.Delivery{Event: transport.Down, Ack: ignored})
	}
	news = append(news, transport.Delivery{Event: transport.LogLost, Ack: ignored})
	for _, d := range append(news, early...) {
		if !l.hand(b, arrival{delivery: d}) {
			return false
		}
	}
	return true
}

func ignored() {}

// hand hands on what the current branch has received. It reports whether it was taken.
func (l *link) hand(b *branch, a arrival) bool {
	a.delivery.At += b.base
	select {
	case l.out <- a:
	case <-b.ctx.Done():
		return false
	}
	switch a.delivery.Event {
	case transport.Value:
		l.told.at = max(l.told.at, a.delivery.At)
	case transport.Replayed:
		l.told.replayed = true
	case transport.Up:
		l.told.up = true
	case transport.Down:
		l.told.up = false
	}
	return true
}

func (l *link) now() *branch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

// on calls f with the current branch, and again if the link has gone over meanwhile.
func (l *link) on(f func(*branch) error) error {
	for {
		b := l.now()
		err := f(b)
		if !errors.Is(err, transport.ErrClosed) || l.ctx.Err() != nil || b == l.now() {
			return err
		}
	}
}

// Peer implements transport.Link.
func (l *link) Peer() string { return l.agent }

// Log implements transport.Link.
func (l *link) Log(ctx context.Context) (log transport.Log, err error) {
	err = l.on(func(b *branch) error {
		log, err = b.Log(ctx)
		return err
	})
	return log, err
}

// Send implements transport.Link. What was put into a log that is left meanwhile is in none:
// LogLost follows.
func (l *link) Send(ctx context.Context, m transport.Message) error {
	return l.on(func(b *branch) error { return b.Send(ctx, m) })
}

// Receive implements transport.Link.
func (l *link) Receive(ctx context.Context) (transport.Delivery, error) {
	if l.ctx.Err() != nil {
		return transport.Delivery{}, context.Cause(l.ctx)
	}
	select {
	case a := <-l.out:
		return a.delivery, a.err
	case <-l.ctx.Done():
		return transport.Delivery{}, context.Cause(l.ctx)
	case <-ctx.Done():
		return transport.Delivery{}, context.Cause(ctx)
	}
}

// Close implements transport.Link.
func (l *link) Close() error {
	l.end(transport.ErrClosed)
	l.over.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	errs := l.errs
	l.errs = nil
	return errs
}
