package memlink

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/mux"
)

// A link is one open end of a line.
type link struct {
	line    *line
	side    side
	peer    string
	process *process // that opened it
	inbox   *transport.Inbox
	streams *mux.Mux
	carrier atomic.Pointer[carrier] // of what it sends on the connection that is there
}

// open opens side s of l for the process p.
func (l *line) open(ctx context.Context, s side, p *process) (*link, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case p.dead():
		return nil, transport.ErrClosed
	case l.ends[s] != nil:
		return nil, errors.New("another link is open")
	}
	e := &link{line: l, side: s, peer: l.called(1 - s), process: p, inbox: transport.NewInbox()}
	e.streams = mux.New(mux.Config{Local: l.called(s), Peer: e.peer, Wake: e.carry})
	if in := e.in(); l.config.Keeps {
		for _, v := range in.kept() {
			e.arrived(v)
		}
	} else {
		in.empty()
	}
	e.inbox.Replayed()
	l.known = l.known || s == hub
	l.ends[s] = e
	l.settle()
	return e, nil
}

// evict closes the link of p, if it has one.
func (l *line) evict(p *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.ends {
		if e != nil && e.process == p {
			e.shut()
		}
	}
}

// shut closes e. Its line knows it no more.
func (e *link) shut() {
	e.inbox.Close()
	e.streams.Close()
	e.line.ends[e.side] = nil
	e.line.settle()
}

func (e *link) out() *direction { return &e.line.tables[e.side] }
func (e *link) in() *direction  { return &e.line.tables[1-e.side] }

// Peer implements transport.Link.
func (e *link) Peer() string { return e.peer }

// Close implements transport.Link.
func (e *link) Close() error {
	e.line.mu.Lock()
	defer e.line.mu.Unlock()
	if e.live() {
		e.shut()
	}
	return nil
}

// Log implements transport.Link.
func (e *link) Log(ctx context.Context) (transport.Log, error) {
	e.line.mu.Lock()
	defer e.line.mu.Unlock()
	if err := e.usable(ctx); err != nil {
		return transport.Log{}, fmt.Errorf("memlink: read log to %s: %w", e.peer, err)
	}
	log := transport.Log{Epoch: e.out().epoch, Keeps: e.line.config.Keeps, Rows: map[string]transport.Message{}}
	if log.Keeps {
		for _, r := range e.out().log {
			log.Put(r.message)
		}
	}
	return log, nil
}

// Send implements transport.Link.
func (e *link) Send(ctx context.Context, m transport.Message) error {
	m.Event = m.Event.Clone()
	e.line.mu.Lock()
	defer e.line.mu.Unlock()
	err := e.usable(ctx)
	if err == nil {
		err = e.fits(m)
	}
	if err != nil {
		return fmt.Errorf("memlink: send %q to %s: %w", m.Key, e.peer, err)
	}
	e.out().put(m)
	e.line.flow(e.side)
	return nil
}

func (e *link) live() bool { return e.line.ends[e.side] == e }

// usable says why the link cannot be used now.
func (e *link) usable(ctx context.Context) error {
	if !e.live() {
		return transport.ErrClosed
	}
	return context.Cause(ctx)
}

func (e *link) fits(m transport.Message) error {
	if err := m.Fits(); err != nil {
		return err
	}
	rows, log := e.line.config.Rows, e.out().log
	if rows > 0 && log[m.Key] == nil && len(log) >= rows {
		return fmt.Errorf("%w: %d rows", transport.ErrFull, rows)
	}
	return nil
}

// Receive implements transport.Link.
func (e *link) Receive(ctx context.Context) (transport.Delivery, error) {
	d, err := e.inbox.Receive(ctx)
	if err != nil {
		return transport.Delivery{}, fmt.Errorf("memlink: receive from %s: %w", e.peer, err)
	}
	if d.Event == transport.Value {
		e.repeat(d)
		d.Message.Event = d.Message.Event.Clone()
	}
	return d, nil
}

// repeat has a value received again, by chance.
func (e *link) repeat(d transport.Delivery) {
	e.line.mu.Lock()
	defer e.line.mu.Unlock()
	if e.line.rnd.Float64() < e.line.weather.Repeat {
		e.inbox.Put(d)
	}
}

// arrived has v, which is in the copy, received.
func (e *link) arrived(v at) {
	d := transport.Delivery{Event: transport.Value, Message: v.message, At: v.place}
	if !e.line.config.Keeps {
		in := e.in()
		d.Ack = func() { e.line.acked(in, v.row) }
	}
	e.inbox.Put(d)
}

// acked drops r from its log, unless another row has replaced it.
func (l *line) acked(d *direction, r *row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d.log[r.message.Key] == r {
		delete(d.log, r.message.Key)
	}
}
