package session

import (
	"sync/atomic"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// Counts say how often things have happened since a Session began.
type Counts struct {
	Sent, Received           uint64 // messages
	SentBytes, ReceivedBytes uint64 // of their events' data
	Met                      uint64 // processes of the peer that have come, or come back
	Refusals                 uint64 // of them that are not understood
	Relisted                 uint64 // times that the store was listed anew because its watch had ended
	Unsent                   uint64 // messages that could not be put into the log, or not at the first attempt
	// Done, Overtaken, Withheld, Refused and Failed are writes and removals by what became of
	// them; Overtaken found another version of the object.
	Done, Overtaken, Withheld, Refused, Failed uint64
}

// counts are Counts that many count.
type counts struct {
	sent, received, sentBytes, receivedBytes   atomic.Uint64
	met, refusals, relisted, unsent            atomic.Uint64
	done, overtaken, withheld, refused, failed atomic.Uint64
}

func (c *counts) now() Counts {
	return Counts{
		Sent: c.sent.Load(), Received: c.received.Load(), SentBytes: c.sentBytes.Load(), ReceivedBytes: c.receivedBytes.Load(),
		Met: c.met.Load(), Refusals: c.refusals.Load(), Relisted: c.relisted.Load(), Unsent: c.unsent.Load(),
		Done: c.done.Load(), Overtaken: c.overtaken.Load(), Withheld: c.withheld.Load(), Refused: c.refused.Load(), Failed: c.failed.Load(),
	}
}

// put counts a message that was put into the log.
func (c *counts) put(m transport.Message) {
	c.sent.Add(1)
	c.sentBytes.Add(uint64(len(m.Event.Data())))
}

// took counts a message that has come.
func (c *counts) took(m transport.Message) {
	c.received.Add(1)
	c.receivedBytes.Add(uint64(len(m.Event.Data())))
}

// meets counts a process of the peer's that has come, and why it is not understood.
func (c *counts) meets(refusal error) {
	c.met.Add(1)
	if refusal != nil {
		c.refusals.Add(1)
	}
}

// trouble counts a write that was refused or has failed.
func (c *counts) trouble(o engine.Outcome) {
	if o == engine.Refused {
		c.refused.Add(1)
		return
	}
	c.failed.Add(1)
}

// Bounds are the upper bounds of what a Pace tells apart, in seconds.
var Bounds = [...]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// A Pace counts durations by size. The zero Pace has counted none.
type Pace struct {
	sizes [len(Bounds) + 1]atomic.Uint64
	sum   atomic.Int64 // nanoseconds
}

// note counts one that began then.
func (p *Pace) note(then time.Time) {
	if then.IsZero() {
		return
	}
	d := max(time.Since(then), 0)
	i := 0
	for i < len(Bounds) && d.Seconds() > Bounds[i] {
		i++
	}
	p.sizes[i].Add(1)
	p.sum.Add(int64(d))
}

// Sizes returns how many there are, their sum in seconds, and by each bound how many are no
// longer.
func (p *Pace) Sizes() (count uint64, sum float64, upTo map[float64]uint64) {
	upTo = make(map[float64]uint64, len(Bounds))
	for i := range p.sizes {
		count += p.sizes[i].Load()
		if i < len(Bounds) {
			upTo[Bounds[i]] = count
		}
	}
	return count, time.Duration(p.sum.Load()).Seconds(), upTo
}

// Paces say how fast the sessions of a process are, all of them together.
type Paces struct {
	Send  Pace // from when a change is seen in the store until it is in the link's log
	Write Pace // from when a message of the peer's is taken in until what it asks for is in the store
}
