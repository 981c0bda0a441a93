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
	process *process      // that opened it
	changed chan struct{} // holds one element once there may be something to receive
	done    chan struct{} // closed with the link
	streams *mux.Mux
	carrier atomic.Pointer[carrier] // of what it sends on the connection that is there

	// The line's lock guards the rest.
	waiting queue       // keys of the copy that the reader is to be given
	replay  int         // how many of them are given before Replayed; -1 after it
	told    *connection // the one that the reader believes in
	losses  int         // lost logs that the reader knows of
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
	e := &link{
		line: l, side: s, peer: l.called(1 - s), process: p,
		changed: make(chan struct{}, 1), done: make(chan struct{}),
		losses: l.tables[s].losses,
	}
	e.streams = mux.New(mux.Config{Local: l.called(s), Peer: e.peer, Wake: e.carry})
	if in := e.in(); l.config.Keeps {
		e.waiting = in.kept()
		e.replay = e.waiting.len()
	} else {
		in.empty()
	}
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
	close(e.done)
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
	if !log.Keeps {
		return log, nil
	}
	for k, r := range e.out().log {
		if r.message.Tombstone() {
			continue
		}
		m := r.message
		if !reserved(k) {
			m.Event.DataEncoded = nil
		}
		m.Event = m.Event.Clone()
		log.Rows[k] = m
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
	if n := len(m.Event.Data()); n > transport.MaxMessage {
		return fmt.Errorf("%w: %d bytes", transport.ErrTooLarge, n)
	}
	rows, log := e.line.config.Rows, e.out().log
	if rows > 0 && log[m.Key] == nil && len(log) >= rows {
		return fmt.Errorf("%w: %d rows", transport.ErrFull, rows)
	}
	return nil
}

// Receive implements transport.Link.
func (e *link) Receive(ctx context.Context) (transport.Delivery, error) {
	for {
		d, ok, err := e.next(ctx)
		if err != nil {
			return transport.Delivery{}, fmt.Errorf("memlink: receive from %s: %w", e.peer, err)
		}
		if ok {
			return d, nil
		}
		select {
		case <-e.changed:
		case <-e.done:
		case <-ctx.Done():
		}
	}
}

// next returns what is to be delivered now, if anything is.
func (e *link) next(ctx context.Context) (d transport.Delivery, ok bool, err error) {
	e.line.mu.Lock()
	defer e.line.mu.Unlock()
	if err := e.usable(ctx); err != nil {
		return d, false, err
	}
	if e.replay < 0 {
		if d, ok = e.news(); ok {
			return d, true, nil
		}
	}
	for e.replay != 0 && e.waiting.len() > 0 {
		k := e.waiting.pop()
		if e.replay > 0 {
			e.replay--
		}
		if v, there := e.in().copy[k]; there {
			return e.value(v), true, nil
		}
	}
	if e.replay < 0 {
		return d, false, nil
	}
	e.replay = -1
	return transport.Delivery{Event: transport.Replayed, Ack: func() {}}, true, nil
}

// news returns what is to be said of the log or of the peer.
func (e *link) news() (d transport.Delivery, ok bool) {
	d.Ack = func() {}
	conn, losses := e.line.conn, e.out().losses
	if conn != nil && conn.ends[e.side] != e {
		conn = nil // that of a link before this one: its peer has not noticed yet
	}
	switch {
	case e.losses != losses:
		e.losses = losses
		d.Event = transport.LogLost
	case e.told != nil && e.told != conn:
		e.told = nil
		d.Event = transport.Down
	case e.told == nil && conn != nil:
		e.told = conn
		d.Event, d.Presence = transport.Up, conn.ends[1-e.side].process.presence
	default:
		return d, false
	}
	return d, true
}

// value returns the delivery of v.
func (e *link) value(v at) transport.Delivery {
	if e.line.rnd.Float64() < e.line.weather.Repeat {
		e.arrived(v.message.Key)
	}
	m := v.message
	m.Event = m.Event.Clone()
	ack := func() {}
	if !e.line.config.Keeps {
		ack = func() { e.line.acked(e.in(), v.row) }
	}
	return transport.Delivery{Event: transport.Value, Message: m, At: v.place, Ack: ack}
}

// acked drops r from its log, unless another row has replaced it.
func (l *line) acked(d *direction, r *row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d.log[r.message.Key] == r {
		delete(d.log, r.message.Key)
	}
}

// arrived notes that the copy has something new of k for the reader.
func (e *link) arrived(k string) {
	e.waiting.push(k)
	e.stir()
}

func (e *link) stir() {
	select {
	case e.changed <- struct{}{}:
	default:
	}
}
