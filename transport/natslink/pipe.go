package natslink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/argocd-fabric/argocd-agent/transport/mux"
)

// A tip is one end of a pipe at a time: that of an open Link, which begins its part of the
// pipe anew, with the next turn, whenever something is wrong with it.
type tip struct {
	link uint64 // stands for hello.Link
	turn uint32
}

// A parcel is what crosses a pipe. One with a packet has the number of the packet; one
// without says how many there were, and that the sender is there.
type parcel struct {
	from, to tip // what the sender takes the two tips for
	number   uint64
	packet   []byte
}

// parcelHead is how long a parcel without a packet is.
const parcelHead = 12 + 12 + 8

// append appends p without its packet.
func (p parcel) append(b []byte) []byte {
	for _, t := range []tip{p.from, p.to} {
		b = binary.BigEndian.AppendUint64(b, t.link)
		b = binary.BigEndian.AppendUint32(b, t.turn)
	}
	return binary.BigEndian.AppendUint64(b, p.number)
}

// maxParcel bounds a parcel.
const maxParcel = 2 * mux.MaxPacket

// unmarshalParcel reads what the peer sends. The packet is part of b.
func unmarshalParcel(b []byte) (parcel, error) {
	if len(b) < parcelHead || len(b) > maxParcel {
		return parcel{}, fmt.Errorf("parcel of %d bytes", len(b))
	}
	at := func(b []byte) tip { return tip{binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:])} }
	return parcel{at(b), at(b[12:]), binary.BigEndian.Uint64(b[24:]), b[parcelHead:]}, nil
}

// A pipe is this side's end of what carries the packets of the streams. NATS gives them in
// order, and loses some when a connection breaks: so they are numbered, and a pipe that
// lacks one begins anew, as it does when the peer is another one. Both sides use it once
// each knows the other's tip. No method waits, and time is an argument.
type pipe struct {
	mux       *mux.Mux
	heartbeat time.Duration
	connected func() uint64 // names the connection to the peer; 0 is none

	mine    tip
	theirs  tip          // the last that was heard; the zero tip if none was, or nobody is there
	peer    uint64       // the peer's link; 0 if nobody is there
	session *mux.Session // nil unless the two tips know each other
	line    uint64       // the connection that the session is on
	out, in uint64       // packets sent and taken in of the session
	due     bool         // the peer is to be told of the tips
	spoke   time.Time    // when it was told last
	heard   time.Time    // when something came last
	used    time.Time    // when there were streams last
}

// there takes in that the peer's end of the link is another one; 0 is none.
func (p *pipe) there(link uint64, now time.Time) {
	p.end()
	p.peer, p.theirs = link, tip{}
	if link == 0 {
		p.mux.End("its process, or the connection to it, is gone")
		return
	}
	p.mux.Expect("it is another process")
	p.due, p.heard = true, now
}

// end makes the session, if there is one, unusable for both sides.
func (p *pipe) end() {
	if p.session != nil {
		p.session = nil
		p.mine.turn++
		p.out, p.in = 0, 0
	}
}

// restart begins anew with the peer that is there.
func (p *pipe) restart(why string) {
	p.end()
	p.mux.Expect(why)
	p.due = true
}

// Why a pipe begins anew.
var (
	errGap    = errors.New("packets were lost")
	errBefore = errors.New("parcel of an end that is not there") // it does not begin anew
)

// take takes in a parcel, and reports what was wrong, if anything was.
func (p *pipe) take(c parcel, now time.Time) error {
	if p.peer == 0 || c.from.link != p.peer || c.from.turn < p.theirs.turn {
		return errBefore
	}
	if c.from != p.theirs {
		if p.session != nil {
			p.restart("it has begun its streams anew")
		}
		p.theirs, p.due = c.from, true
	}
	if c.to != p.mine {
		p.due = true
		return nil
	}
	if p.session == nil {
		p.session, p.line = p.mux.Begin(), p.connected()
		p.due = true
	}
	p.heard = now
	if len(c.packet) == 0 && now.Sub(p.spoke) >= 3*p.heartbeat/4 {
		p.due = true // it may have a use for the pipe that has not got here
	}
	return p.deliver(c, now)
}

// deliver takes in a parcel of the session.
func (p *pipe) deliver(c parcel, now time.Time) error {
	want := p.in
	if len(c.packet) > 0 {
		want++
	}
	err := errGap
	if c.number == want {
		p.in = want
		err = p.session.Take(c.packet, now)
	}
	if err != nil {
		p.restart(err.Error())
	}
	return err
}

// A pipe that nobody has used for some heartbeats is calm: it says less often that it is there, as nobody
// waits for what may be lost. Who has a use for it speaks with each heartbeat, and is answered.
const (
	calmAfter = 2
	calmBeats = 7 // it speaks once in so many heartbeats
)

// beat returns how often this side is to speak and to hear the other.
func (p *pipe) beat(now time.Time) time.Duration {
	calm := now.Sub(p.used) > calmAfter*p.heartbeat
	switch {
	case p.session.Busy():
		if calm {
			p.heard = now // nothing was to be heard
		}
		p.used = now
	case calm:
		return calmBeats * p.heartbeat
	}
	return p.heartbeat
}

// look takes in the time, and which connection there is; 0 is none.
func (p *pipe) look(line uint64, now time.Time) {
	switch {
	case p.peer == 0:
		return
	case p.session == nil:
		p.due = true // it may have been lost
		return
	case line != p.line:
		p.restart("the connection to it has broken")
		return
	}
	switch beat := p.beat(now); {
	case now.Sub(p.heard) > 5*beat/2:
		p.restart("it says nothing")
	case now.Sub(p.spoke) >= beat:
		p.due = true
	}
}

// next appends to b the parcel that is to be sent now, and nothing if there is none.
func (p *pipe) next(b []byte, now time.Time) []byte {
	c := parcel{from: p.mine, to: p.theirs, number: p.out}
	if p.due && p.peer != 0 {
		p.due, p.spoke = false, now
		return c.append(b)
	}
	if p.session == nil {
		return b
	}
	c.number++
	whole := p.session.Next(c.append(b), now)
	if len(whole) == len(b)+parcelHead {
		return b
	}
	p.out++
	return whole
}
