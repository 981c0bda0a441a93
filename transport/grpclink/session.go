package grpclink

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/grpclink/linkpb"
	"github.com/argocd-fabric/argocd-agent/transport/packetlink"
)

// A pipe is either end of a call.
type pipe interface {
	Send(*linkpb.Packet) error
	Recv() (*linkpb.Packet, error)
}

// A part is what one call carries: the Table of a packetlink.Connection, or its Streams.
type part interface {
	Next(b []byte, now time.Time) []byte
	Take(packet []byte, now time.Time) error
}

// A session is what two processes have from the first hello until either of them, or what is
// between them, is gone. It ends once, for one cause.
type session struct {
	id      string
	beat    time.Duration
	squeeze *squeezer
	ctx     context.Context
	end     context.CancelCauseFunc
	silence *time.Timer // ends it when nothing is heard

	over     *sync.WaitGroup // what it has running
	streamed atomic.Bool     // its call for streams has come

	// Set before anything is carried:
	conn *packetlink.Connection
	wake func() // wakes who carries the next
}

// beats is how many times the heartbeat a peer may be silent.
const beats = 3

// newSession returns a session that ends with ctx, or if nothing is heard for as long as
// within says, or later for too many heartbeats.
func newSession(ctx context.Context, id string, within time.Duration, o *common) *session {
	s := &session{id: id, beat: o.beat, squeeze: o.squeeze, over: &o.over}
	s.ctx, s.end = context.WithCancelCause(ctx)
	s.silence = time.AfterFunc(within, func() {
		s.end(fmt.Errorf("%w: it says nothing", transport.ErrAway))
	})
	return s
}

// heard notes a sign of life.
func (s *session) heard() { s.silence.Reset(beats * s.beat) }

// A common is what the sessions of one end have in common.
type common struct {
	beat    time.Duration
	squeeze *squeezer
	over    sync.WaitGroup // what they have running
}

// carry has a call carry a part until the session ends, and returns at once.
func (s *session) carry(p pipe, of part, ready <-chan struct{}, beats bool) {
	s.over.Go(func() { s.end(s.receive(p, of)) })
	s.over.Go(func() { s.end(s.send(p, of, ready, beats)) })
}

func (s *session) receive(p pipe, of part) error {
	for {
		packet, err := p.Recv()
		if err != nil {
			return err
		}
		s.heard()
		frames, err := s.squeeze.open(packet)
		if err == nil && len(frames) > 0 {
			err = of.Take(frames, time.Now())
		}
		switch {
		case errors.Is(err, transport.ErrFull):
			return excessive(err)
		case err != nil:
			return malformed(err)
		}
	}
}

// send sends what there is, and if it is to beat, a sign of life when there was nothing for
// too long.
func (s *session) send(p pipe, of part, ready <-chan struct{}, beats bool) error {
	defer s.wake()
	var b []byte
	sent, timer := time.Now(), time.NewTimer(s.beat)
	defer timer.Stop()
	for s.ctx.Err() == nil {
		now := time.Now()
		b = of.Next(b[:0], now)
		if len(b) > 0 || beats && now.Sub(sent) >= s.beat {
			if err := p.Send(s.squeeze.packet(b, beats)); err != nil {
				return err
			}
			sent = now
			continue
		}
		b = nil // an idle session keeps no memory
		timer.Reset(s.pause(of, sent.Add(s.beat), now))
		select {
		case <-ready:
		case <-timer.C:
		case <-s.ctx.Done():
		}
	}
	return context.Cause(s.ctx)
}

// pause returns when to look again although nothing wakes.
func (s *session) pause(of part, beat, now time.Time) time.Duration {
	wait := max(beat.Sub(now), s.beat/8)
	if t, ok := of.(*packetlink.Table); ok {
		if due := t.Due(now); !due.IsZero() {
			wait = min(wait, max(due.Sub(now), 0))
		}
	}
	return wait
}

// greet sends the first Packet of a call.
func greet(p pipe, h *linkpb.Hello) error {
	return p.Send(&linkpb.Packet{Of: &linkpb.Packet_Hello{Hello: h}})
}

// maxHello bounds each text of a hello: they are kept, shown and logged.
const maxHello = 256

// meet receives the first Packet of a call.
func (s *session) meet(p pipe) (*linkpb.Hello, error) {
	packet, err := p.Recv()
	if err != nil {
		return nil, err
	}
	h := packet.GetHello()
	if h == nil {
		return nil, malformed(errors.New("it does not begin with a hello"))
	}
	for _, text := range []string{h.GetProcess(), h.GetVersion(), h.GetSession()} {
		if len(text) > maxHello {
			return nil, malformed(fmt.Errorf("a text of its hello has %d bytes", len(text)))
		}
	}
	s.heard()
	return h, nil
}

// helloOf returns the hello of a process, and presenceOf the inverse.
func helloOf(p transport.Presence, session string) *linkpb.Hello {
	return &linkpb.Hello{Process: p.Process, Version: p.Version, Oldest: int32(p.Oldest), Newest: int32(p.Newest), Session: session}
}

func presenceOf(h *linkpb.Hello) transport.Presence {
	return transport.Presence{Process: h.GetProcess(), Version: h.GetVersion(), Oldest: int(h.GetOldest()), Newest: int(h.GetNewest())}
}
