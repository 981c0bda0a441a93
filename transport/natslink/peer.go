package natslink

import (
	"sync"
	"time"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// settle is how long a peer that has just been heard is believed in, although the link
// seems to be gone: the next connection may be about to take the place of the one before.
const settle = 100 * time.Millisecond

// A peer is what one end knows of the process on the other. It is there from when it is
// heard until the link is gone, or until it has been silent for too long.
//
// What a connection has brought may be taken in long after it is gone, on a busy machine,
// while it is known at once that it is. So nobody is heard over a link that is not there.
// Nobody is missed by that: a server is told what a peer listens to before it is given what
// the peer says, and when a link comes back, both sides say something.
type peer struct {
	mailbox *mailbox
	streams *streamer
	linked  func() bool // whether the peer listens, and so whether there is a link
	silence time.Duration
	rival   func(time.Duration) // called, with the lock held, with for how long others should be kept out
	heard   chan struct{}       // holds one element after each word from the peer

	mu     sync.Mutex
	rivals rivals
	now    *transport.Presence
	link   string    // its end of the link
	left   string    // the end that was said to be closed last
	closed bool      // it was the one that the connection still leads to, for all that is known
	since  time.Time // when the process was first heard
	last   time.Time // when it was heard last
}

func newPeer(m *mailbox, s *streamer, linked func() bool, silence time.Duration, rival func(time.Duration)) *peer {
	return &peer{mailbox: m, streams: s, linked: linked, silence: silence, rival: rival, heard: make(chan struct{}, 1)}
}

// says takes in that the process of h has said something.
func (p *peer) says(h hello, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.Link == p.left || !p.linked() {
		return // sent before it left, or before the link was gone
	}
	p.last = at
	if pause := p.rivals.hears(h.Process, at); pause > 0 {
		p.rival(pause)
	}
	p.closed = false
	if p.now == nil || p.link != h.Link {
		presence := h.presence()
		p.now, p.link, p.since = &presence, h.Link, at
		p.streams.there(h.Link)
		p.mailbox.there(p.now)
	}
	signal(p.heard)
}

// lives takes in that the process that is there has spoken, of whatever.
func (p *peer) lives(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil {
		p.last = at
	}
}

// leaves takes in that the process of h is about to end.
func (p *peer) leaves(h hello) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = h.Link
	if p.now == nil || p.link == h.Link {
		p.closed = true
	}
	if p.now != nil && p.link == h.Link {
		p.gone()
	}
}

// look notices that there is no link, and silence.
func (p *peer) look(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	linked := p.linked()
	if !linked {
		p.closed = false // what there will be is another end
	}
	silent := at.Sub(p.last)
	if p.now != nil && (silent > p.silence || (!linked && silent > settle)) {
		p.gone()
	}
}

// open reports whether there is a link, and the peer's end of it is open. What it listens to
// takes a moment to be withdrawn after its goodbye.
func (p *peer) open() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.linked() && !p.closed
}

// end returns the name of the peer's end of the link, "" while it is not there.
func (p *peer) end() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		return ""
	}
	return p.link
}

// gone is called with the lock held.
func (p *peer) gone() {
	p.now = nil
	p.streams.there("")
	p.mailbox.there(nil)
}

// state returns since when the process has been there, zero if it is not, and when it
// was heard last.
func (p *peer) state() (since, last time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil {
		since = p.since
	}
	return since, p.last
}
