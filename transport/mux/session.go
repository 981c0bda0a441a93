package mux

import (
	"errors"
	"fmt"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// takenEvery is after how many bytes of data the peer is told that they were taken in.
const takenEvery = flight / 16

// A Session is all that this side and one process of the peer say to each other, from
// Begin until either of them is gone. The Sessions of the two sides belong together: what
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
	sent    uint64    // bytes of data that were sent
	arrived uint64    // those that the peer has taken in
	taken   uint64    // bytes of data that were taken in
	told    uint64    // those that the peer knows of
}

func newSession(m *Mux) *Session { return &Session{mux: m, streams: map[id]*conn{}} }

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
	s.count[c.id.side()]--
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
func (s *Session) Next(b []byte) []byte {
	s.mux.mu.Lock()
	defer s.mux.mu.Unlock()
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
	for len(s.ready) > 0 && end-len(b) > frameHead && s.room() > 0 {
		c := s.ready[0]
		s.ready = s.ready[1:]
		b = c.send(b, min(quantum, end-len(b)-frameHead, s.room()))
	}
	return b
}

// frameHead is what a frame of data takes besides the data, at most.
const frameHead = 1 + 10 + 3

// room returns how much data may be sent now.
func (s *Session) room() int { return flight - int(s.sent-s.arrived) }

// Take takes in the next packet of the peer. It ends the session if it is against the rules,
// and returns why.
func (s *Session) Take(packet []byte) error {
	s.mux.mu.Lock()
	defer s.mux.mu.Unlock()
	for len(packet) > 0 && !s.ended {
		f, rest, err := cutFrame(packet)
		if err == nil {
			err = s.take(f)
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

func (s *Session) take(f frame) error {
	switch f.kind {
	case frameTaken:
		return s.arrive(f.number)
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
func (s *Session) arrive(n uint64) error {
	if n < s.arrived || n > s.sent {
		return fmt.Errorf("%d bytes have arrived of %d", n, s.sent)
	}
	s.arrived = n
	if len(s.ready) > 0 {
		s.mux.config.Wake()
	}
	return nil
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
