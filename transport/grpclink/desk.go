package grpclink

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/grpclink/linkpb"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/packetlink"
)

// A principal that has just started may not have been told yet which agents there are. For so
// long after its start those that it does not know are told to come again soon, and nobody
// hears of it.
const (
	settling  = 10 * time.Second
	comeAgain = time.Second
)

// patience is how long a process has for its first hello, at least: a principal that has just
// come back has the handshakes of its whole fleet to make.
const patience = 10 * time.Second

// A desk lets agents in, each to its own Link. It is the server of the calls.
type desk struct {
	linkpb.UnimplementedLinkServer
	common
	authenticate identity.Prover
	trust        *identity.Credentials
	presence     transport.Presence
	strangers    func(transport.Stranger) // nil: nobody is told
	log          *zap.Logger
	teller       teller
	door         door
	lobby        lobby
	limits       packetlink.Limits
	complaints   transport.Complaints

	mu     sync.Mutex
	opened time.Time        // when the hub started
	seats  map[string]*seat // of the agents that are registered
}

// A seat is what there is of a registered agent.
type seat struct {
	end     *packetlink.End // nil while the Link is not open
	session *session        // the newest; it may have ended
	process string          // that it is of
	proof   identity.Proof  // by which it was let in
	door    door            // so that one agent does not keep out the others
}

// How often one agent may connect.
const (
	eachAgain  = 100 * time.Millisecond
	burstAgain = 20
)

func newDesk(c HubConfig, squeeze *squeezer) *desk {
	return &desk{
		common:       common{beat: c.Heartbeat, squeeze: squeeze},
		authenticate: c.Authenticate, trust: c.Credentials, presence: c.Presence, strangers: c.Strangers, log: c.Logger, limits: c.Limits,
		door:  door{each: time.Second / time.Duration(c.Admissions), burst: c.Admissions/2 + 1},
		seats: map[string]*seat{},
	}
}

func (d *desk) start(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened = now
}

// A hubLink is the principal's end of a Link.
type hubLink struct {
	*packetlink.End
	closed func()
}

// Close implements transport.Link. The End goes first, as an agent's.
func (l *hubLink) Close() error {
	err := l.End.Close()
	l.closed()
	return err
}

// open opens the Link to an agent, and registers it.
func (d *desk) open(agent string) (transport.Link, error) {
	end, err := packetlink.Open(packetlink.Config{Local: "principal", Peer: agent, Limits: d.limits})
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.seats[agent]
	if s == nil {
		s = &seat{door: door{each: eachAgain, burst: burstAgain}}
		d.seats[agent] = s
	}
	s.end = end
	return &hubLink{end, func() { d.leave(s) }}, nil
}

// leave ends what goes on at a seat whose Link is closed.
func (d *desk) leave(s *seat) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.end = nil
	if s.session != nil {
		s.session.end(unserved("the principal has closed the link"))
	}
}

func (d *desk) forget(agent string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seats[agent] == nil {
		return transport.ErrUnknown
	}
	delete(d.seats, agent)
	d.complaints.Forget(agent)
	return nil
}

func (d *desk) kept() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.seats)), nil
}

// Table implements linkpb.LinkServer. The call's goroutine is the one that sends, so that an
// agent which is idle costs no more of them than it must.
func (d *desk) Table(p linkpb.Link_TableServer) error {
	s := newSession(p.Context(), rand.Text(), max(patience, beats*d.beat), &d.common)
	defer s.silence.Stop()
	v, err := d.visitor(p.Context())
	if err == nil {
		err = d.admit(v, saidIn(p.Context()), time.Now())
	}
	if err != nil {
		s.end(err)
		return d.dismiss(v, err)
	}
	seated := make(chan *packetlink.End, 1)
	s.over.Go(func() {
		end, err := d.seat(s, p, v)
		if err == nil {
			seated <- end
			err = s.receive(p, s.conn.Table)
		}
		s.end(err)
	})
	select {
	case end := <-seated:
		err := greet(p, helloOf(d.presence, s.id))
		if err == nil {
			err = s.send(p, s.conn.Table, end.TableReady(), true)
		}
		s.end(err)
	case <-s.ctx.Done():
	}
	return d.dismiss(v, context.Cause(s.ctx))
}

// A visitor is who has made a call.
type visitor struct {
	agent string
	from  string // the address
	proof identity.Proof
}

// visitor returns who has made a call, as its connection proves it.
func (d *desk) visitor(ctx context.Context) (v visitor, err error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return v, unproven(errors.New("nobody is known to call"))
	}
	v.from = p.Addr.String()
	met, ok := p.AuthInfo.(*acquaintance)
	if !ok {
		return v, unproven(errors.New("nothing is known of the connection"))
	}
	v.proof, err = met.prove(ctx, func(s identity.Shown) (identity.Proof, error) {
		s.From = p.Addr
		return d.authenticate(d.trust, s)
	})
	v.agent = v.proof.Agent
	switch {
	case errors.Is(err, identity.ErrBusy):
		return v, crowded(comeAgain)
	case err != nil:
		return v, unproven(err)
	}
	return v, nil
}

// admit returns why an agent, which says something of itself, is not let in now.
func (d *desk) admit(v visitor, says string, now time.Time) error {
	d.mu.Lock()
	s, opened := d.seats[v.agent], d.opened
	d.mu.Unlock()
	switch {
	case s == nil && now.Sub(opened) < settling:
		return unlisted()
	case s == nil:
		return d.meet(v, says, now)
	}
	wait := s.door.admit(now)
	if wait == 0 {
		wait = d.door.admit(now)
	}
	if wait > 0 {
		return crowded(wait)
	}
	return nil
}

// meet returns why an agent that is not registered is not let in, and tells of it if it is to be
// trusted.
func (d *desk) meet(v visitor, says string, now time.Time) error {
	if d.strangers != nil && d.trust.Trusts(v.proof, now) == nil {
		d.strangers(transport.Stranger{Agent: v.agent, From: v.from, Says: says})
	}
	return unregistered()
}

// seat has an agent say who it is, and gives it its Link until the session ends.
func (d *desk) seat(s *session, p pipe, v visitor) (*packetlink.End, error) {
	hello, err := s.meet(p)
	if err != nil {
		return nil, err
	}
	end, err := d.take(s, presenceOf(hello), v)
	if err != nil {
		return nil, err
	}
	log := d.log.With(zap.String("agent", v.agent), zap.String("from", v.from), zap.String("version", hello.GetVersion()))
	log.Info("an agent is connected")
	s.over.Add(1)
	context.AfterFunc(s.ctx, func() {
		defer s.over.Done()
		why := context.Cause(s.ctx)
		end.End(s.conn, why.Error())
		log.Info("an agent is not connected any more", zap.Error(why))
	})
	return end, nil
}

// take gives a session the Link of its agent. The one that had it is over.
func (d *desk) take(s *session, p transport.Presence, v visitor) (*packetlink.End, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seat := d.seats[v.agent]
	switch {
	case seat == nil:
		return nil, unregistered()
	case seat.end == nil:
		return nil, unserved("the principal does not serve this agent now")
	}
	if s.ctx.Err() != nil {
		return nil, context.Cause(s.ctx) // the newest is the one that is there
	}
	if err := d.trust.Trusts(v.proof, time.Now()); err != nil {
		return nil, unproven(err)
	}
	if before := seat.session; before != nil && seat.process != p.Process {
		before.end(replaced(v.from))
	} else if before != nil {
		before.end(unserved("this agent has connected again"))
	}
	seat.session, seat.process, seat.proof = s, p.Process, v.proof
	s.conn, s.wake = seat.end.Begin(p), seat.end.Wake
	return seat.end, nil
}

// watch cuts agents off that are not to be trusted any more: their certificates have expired,
// the CA is another, or they are blocked. They connect again once they are.
func (d *desk) watch(ctx context.Context) {
	d.trust.Patrol(ctx, func(distrusted func(identity.Proof) error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		for agent, s := range d.seats {
			if s.session == nil || s.session.ctx.Err() != nil {
				continue
			}
			if err := distrusted(s.proof); err != nil {
				d.log.Warn("an agent is cut off", zap.String("agent", agent), zap.Error(err))
				s.session.end(unproven(err))
			}
		}
	})
}

// Streams implements linkpb.LinkServer.
func (d *desk) Streams(p linkpb.Link_StreamsServer) error {
	v, err := d.visitor(p.Context())
	if err != nil {
		return d.dismiss(v, err)
	}
	first, err := d.first(p)
	if err != nil {
		return d.dismiss(v, err)
	}
	s, end := d.sessionOf(v.agent, first.GetHello().GetSession())
	if s == nil {
		return unserved("there is no such session")
	}
	if s.streamed.Swap(true) {
		err := malformed(errors.New("it calls for the streams of one session twice"))
		s.end(err)
		return d.dismiss(v, err)
	}
	if err := greet(p, &linkpb.Hello{}); err != nil {
		return err
	}
	s.over.Go(func() { s.end(s.receive(p, s.conn.Streams)) })
	s.end(s.send(p, s.conn.Streams, end.StreamsReady(), false))
	return statusOf(context.Cause(s.ctx))
}

// first returns the first Packet of a call for streams, which is to come soon.
func (d *desk) first(p pipe) (*linkpb.Packet, error) {
	type packet struct {
		*linkpb.Packet
		err error
	}
	came := make(chan packet, 1)
	d.over.Go(func() { // which ends with the call at the latest
		first, err := p.Recv()
		came <- packet{first, err}
	})
	late := time.NewTimer(max(patience, beats*d.beat))
	defer late.Stop()
	select {
	case first := <-came:
		return first.Packet, first.err
	case <-late.C:
		return nil, unserved("it says nothing")
	}
}

// sessionOf returns the session of an agent, nil if it is not that one.
func (d *desk) sessionOf(agent, id string) (*session, *packetlink.End) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seat := d.seats[agent]
	if seat == nil || seat.end == nil || seat.session == nil || seat.session.id != id {
		return nil, nil
	}
	return seat.session, seat.end
}

// dismiss returns the end of a call as the agent is to see it, and tells the log if somebody
// was refused.
func (d *desk) dismiss(v visitor, err error) error {
	var r *refusal
	if errors.As(err, &r) {
		switch r.code {
		case codes.InvalidArgument:
			d.offend(v.agent, r)
		case codes.FailedPrecondition:
			d.complain(v.agent, copyQuota, r, "remove objects of this agent: what is new waits until then")
		}
	}
	if errors.As(err, &r) && !r.quiet && d.teller.news(v.agent+" "+r.code.String(), time.Now()) {
		d.log.Warn("refused a connection", zap.String("agent", v.agent), zap.String("from", v.from), zap.Error(r))
	}
	return statusOf(fmt.Errorf("the session has ended: %w", err))
}
