package natslink

import (
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport/mux"
)

// A plumbing is two pipes, a clock, and a line that is one connection after the other. What
// was sent and has not arrived when a connection breaks is lost.
type plumbing struct {
	t     *testing.T
	now   time.Time
	line  uint64
	pipes [2]*pipe
	sent  [2][][]byte // by sender
}

func newPlumbing(t *testing.T) *plumbing {
	p := &plumbing{t: t, now: time.Unix(1000, 0), line: 1}
	for i := range p.pipes {
		p.start(i)
	}
	return p
}

var plumbed = [2]string{"principal", "north"}

// start starts a process on side i. Nobody knows of it yet.
func (p *plumbing) start(i int) {
	link := uint64(1)
	if before := p.pipes[i]; before != nil {
		link = before.mine.link + 2
		before.mux.Close()
	} else if i == 1 {
		link = 2
	}
	p.pipes[i] = &pipe{
		mux:       mux.New(mux.Config{Local: plumbed[i], Peer: plumbed[1-i], Wake: func() {}}),
		heartbeat: time.Second, connected: func() uint64 { return p.line }, mine: tip{link, 1},
	}
	p.sent[i] = nil
}

// meet lets side i know of the other's process.
func (p *plumbing) meet(i int) { p.pipes[i].there(p.pipes[1-i].mine.link, p.now) }

// send has side i send one parcel, and reports whether there was one.
func (p *plumbing) send(i int) bool {
	b := p.pipes[i].next(nil, p.now)
	if len(b) == 0 {
		return false
	}
	p.sent[i] = append(p.sent[i], b)
	return true
}

// arrive lets the oldest parcel of side i arrive, and reports whether there was one.
func (p *plumbing) arrive(i int) bool {
	if len(p.sent[i]) == 0 {
		return false
	}
	c, err := unmarshalParcel(p.sent[i][0])
	require.NoError(p.t, err)
	p.sent[i] = p.sent[i][1:]
	_ = p.pipes[1-i].take(c, p.now) // the pipe begins anew if it must
	return true
}

// settle lets time pass in which nothing is lost.
func (p *plumbing) settle(d time.Duration) {
	for end := p.now.Add(d); p.now.Before(end); p.now = p.now.Add(250 * time.Millisecond) {
		for i := range p.pipes {
			p.pipes[i].look(p.line, p.now)
		}
		for busy := true; busy; {
			busy = false
			for i := range p.pipes {
				busy = p.send(i) || busy
				busy = p.arrive(i) || busy
			}
		}
	}
}

// check demands that streams work both ways.
func (p *plumbing) check() {
	p.t.Helper()
	for i := range p.pipes {
		c, err := p.pipes[i].mux.Open(p.t.Context(), "check")
		require.NoError(p.t, err)
		require.NoError(p.t, c.Close())
		p.settle(250 * time.Millisecond)
		d := p.accept(1-i, "check")
		_, err = io.ReadAll(d)
		require.NoError(p.t, err)
		require.NoError(p.t, d.Close())
	}
}

// accept accepts streams up to the first for a service.
func (p *plumbing) accept(i int, service string) net.Conn {
	for {
		named, c, err := p.pipes[i].mux.Accept(p.t.Context())
		require.NoError(p.t, err)
		if named == service {
			return c
		}
	}
}

// TestPipe: whatever is lost, restarted and noticed by one side only, in any order, both
// sides agree on a session soon after, and keep it.
func TestPipe(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		p := newPlumbing(t)
		for range 200 {
			i := rnd.IntN(2)
			switch rnd.IntN(12) {
			case 0:
				p.meet(i)
			case 1:
				p.pipes[i].there(0, p.now)
			case 2:
				p.sent, p.line = [2][][]byte{}, p.line+1
			case 3:
				p.start(i)
			case 4:
				p.now = p.now.Add(time.Duration(rnd.IntN(3000)) * time.Millisecond)
				p.pipes[i].look(p.line, p.now)
			case 5:
				if p.pipes[i].session != nil {
					_, err := p.pipes[i].mux.Open(t.Context(), "doomed")
					require.NoError(t, err)
				}
			case 6, 7, 8:
				p.send(i)
			default:
				p.arrive(i)
			}
		}
		p.meet(0)
		p.meet(1)
		p.settle(3 * time.Second)
		one, other := p.pipes[0], p.pipes[1]
		require.NotNil(t, one.session, "seed %d", seed)
		require.NotNil(t, other.session, "seed %d", seed)
		require.Equal(t, one.mine, other.theirs)
		require.Equal(t, other.mine, one.theirs)
		sessions := [2]*mux.Session{one.session, other.session}
		p.check()
		p.settle(time.Minute)
		require.Equal(t, sessions, [2]*mux.Session{one.session, other.session}, "seed %d", seed)
	}
}

// TestCalmPipe: a pipe that nobody uses says little, and as soon as one side does, both are heard with
// each heartbeat, however long the other has nothing to say.
func TestCalmPipe(t *testing.T) {
	p := newPlumbing(t)
	p.meet(0)
	p.meet(1)
	p.settle(time.Minute)
	sessions := [2]*mux.Session{p.pipes[0].session, p.pipes[1].session}
	require.NotNil(t, sessions[0])
	spoken := func(d time.Duration) (times int) {
		last := [2]time.Time{p.pipes[0].spoke, p.pipes[1].spoke}
		for end := p.now.Add(d); p.now.Before(end); {
			p.settle(250 * time.Millisecond)
			for i := range p.pipes {
				if now := p.pipes[i].spoke; now != last[i] {
					last[i] = now
					times++
				}
			}
		}
		return times
	}
	require.LessOrEqual(t, spoken(70*time.Second), 2*11)

	c, err := p.pipes[0].mux.Open(t.Context(), "kept")
	require.NoError(t, err)
	p.settle(250 * time.Millisecond)
	d := p.accept(1, "kept")
	require.GreaterOrEqual(t, spoken(70*time.Second), 2*69)
	require.NoError(t, d.Close()) // for the other side it is there until it is closed here
	require.GreaterOrEqual(t, spoken(70*time.Second), 2*69)
	require.Equal(t, sessions, [2]*mux.Session{p.pipes[0].session, p.pipes[1].session})
	require.NoError(t, c.Close())
	p.settle(3 * time.Second)
	require.LessOrEqual(t, spoken(70*time.Second), 2*11)

	_, err = p.pipes[0].mux.Open(t.Context(), "unheard")
	require.NoError(t, err)
	for range 10 { // seconds in which what the other says is lost
		p.sent = [2][][]byte{}
		p.now = p.now.Add(time.Second)
		p.pipes[0].look(p.line, p.now)
		for p.send(0) {
		}
	}
	require.NotEqual(t, sessions[0], p.pipes[0].session, "it says nothing")
}
