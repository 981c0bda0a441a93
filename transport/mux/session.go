package mux

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A Session is all that this side and one process of the peer say to each other, from
// Begin until either of them is gone. The Sessions of the two sides belong together: what
// Busy reports whether there are streams.
func (s *Session) Busy() bool {
	s.mux.mu.Lock()
	defer s.mux.mu.Unlock()
	return len(s.streams) > 0
}

// Next of one returns is for Take of the other, packet by packet, in order, none left out.
type Session struct {
	mux *Mux

	// The Mux's lock guards the rest.
	ended   bool
	streams map[id]*conn
	count   [2]int    // how many streams are open that the peer, and that this side has opened
	last    [2]uint64 // the number of the last stream that the peer, and that this side has opened
	control []*conn   // those that owe the peer a word besides data
	ready   []*conn   // those that have data and may send it
	refuse  []uint64  // numbers of the peer's streams that are not taken
	flight  flight
	taken   uint64 // bytes of data that were taken in
	told    uint64 // those that the peer knows of
}

func newSession(m *Mux) *Session {
	return &Session{mux: m, streams: map[id]*conn{}, flight: flight{size: firstFlight}}
}

// side indexes what there is of each side.
func (i id) side() int {
	if i.mine {
		return 1
	}
	return 0
}

// open opens a stream.
func (s *Session) open(service string) (*conn, error) {
	if s.count[1] >= transport.MaxStreams {
		return nil, fmt.Errorf("%d streams are open, and no more may be", transport.MaxStreams)
	}
	s.last[1]++
	c := newConn(s, id{s.last[1], true}, service)
	c.opening, c.credit, c.window, c.limit = true, early, window, window
	s.add(c)
	c.owe()
	return c, nil
}

func (s *Session) add(c *conn) {
	s.streams[c.id] = c
	s.count[c.id.side()]++
}

func (s *Session) remove(c *conn) {
	delete(s.streams, c.id)
	s.discount(c)
}

// discount makes room for another stream in place of c. What is still to be said of c is said
// before the peer hears of that one.
func (s *Session) discount(c *conn) {
	if !c.over {
		c.over = true
		s.count[c.id.side()]--
	}
}

// end ends all streams because of err.
func (s *Session) end(err error) {
	s.ended = true
	for _, c := range s.streams {
		c.fail(err)
	}
	s.streams, s.control, s.ready, s.refuse = nil, nil, nil, nil
	if s.mux.session == s {
		s.mux.session, s.mux.waiting = nil, nil
	}
}

// Next appends to b the next packet for the peer, and nothing if there is none now.
func (s *Session) Next(b []byte, now time.Time) []byte {
	s.mux.mu.Lock()
	defer s.mux.mu.Unlock()
	if s.ended {
		return b
	}
	b = slices.Grow(b, s.size())
	end := len(b) + MaxPacket
	if s.taken-s.told >= takenEvery {
		s.told = s.taken
		b = appendFrame(b, frame{kind: frameTaken, number: s.taken})
	}
	for len(s.refuse) > 0 && len(b) < end {
		b = appendFrame(b, frame{kind: frameRefuse, id: id{number: s.refuse[0]}})
		s.refuse = s.refuse[1:]
	}
	for len(s.control) > 0 && len(b) < end {
		c := s.control[0]
		s.control = s.control[1:]
		b = c.speak(b)
	}
	for len(s.ready) > 0 && end-len(b) > frameHead && s.flight.room() > 0 {
		c := s.ready[0]
		s.ready = s.ready[1:]
		b = c.send(b, min(quantum, end-len(b)-frameHead, s.flight.room()), now)
	}
	return b
}

// frameHead is what a frame of data takes besides the data, at most.
const frameHead = 1 + 10 + 3

// size is about what data takes in the next packet.
func (s *Session) size() int {
	n := 0
	for _, c := range s.ready {
		if n += frameHead + c.sendable(); n >= s.flight.room() || n >= MaxPacket {
			break
		}
	}
	return min(n, s.flight.room()+frameHead, MaxPacket)
}

// Take takes in the next packet of the peer. It ends the session if it is against the rules,
// and returns why.
func (s *Session) Take(packet []byte, now time.Time) error {
	s.mux.mu.Lock()
	defer s.mux.mu.Unlock()
	for len(packet) > 0 && !s.ended {
		f, rest, err := cutFrame(packet)
		if err == nil {
			err = s.take(f, now)
		}
		if err != nil {
			err = fmt.Errorf("mux: %s breaks the rules of streams: %w", s.mux.config.Peer, err)
			s.end(fmt.Errorf("%w: %w", transport.ErrAway, err))
			return err
		}
		packet = rest
	}
	return nil
}

func (s *Session) take(f frame, now time.Time) error {
	switch f.kind {
	case frameTaken:
		return s.arrive(f.number, now)
	case frameOpen:
		return s.opened(f)
	case frameData:
		s.takeIn(len(f.text))
	}
	if f.id.number == 0 || f.id.number > s.last[f.id.side()] {
		return fmt.Errorf("no stream %d was opened", f.id.number)
	}
	if c := s.streams[f.id]; c != nil {
		return c.hear(f)
	}
	return nil // it has ended on this side
}

// takeIn notes that data has come in.
func (s *Session) takeIn(n int) {
	s.taken += uint64(n)
	if s.taken-s.told >= takenEvery {
		s.mux.config.Wake()
	}
}

// arrive notes that the peer has taken in that much.
func (s *Session) arrive(n uint64, now time.Time) error {
	err := s.flight.arrive(n, now)
	if len(s.ready) > 0 {
		s.mux.config.Wake()
	}
	return err
}

// opened takes in that the peer has opened a stream.
func (s *Session) opened(f frame) error {
	switch {
	case f.id.mine || f.id.number != s.last[0]+1:
		return errors.New("stream is opened out of order")
	case len(f.text) == 0 || len(f.text) > transport.MaxService:
		return fmt.Errorf("service has a name of %d bytes", len(f.text))
	}
	s.last[0]++
	if s.count[0] >= transport.MaxStreams {
		if len(s.refuse) >= transport.MaxStreams {
			return errors.New("too many streams are opened")
		}
		s.refuse = append(s.refuse, f.id.number)
		s.mux.config.Wake()
		return nil
	}
	c := newConn(s, f.id, string(f.text))
	c.credit, c.window, c.limit = window, early, early
	s.add(c)
	s.mux.waiting = append(s.mux.waiting, c)
	s.mux.changed.ring()
	return nil
}
