package kubeapi

import "sync"

// An Outcome is what has become of a request. Its text is short, and of few kinds.
type Outcome string

// The outcomes. A request may have two: it was answered, and then the answer broke off.
const (
	Answered Outcome = "answered" // by the other half or the API server, whatever was said
	Unproven Outcome = "unproven" // nobody knows who asks
	Unknown  Outcome = "unknown"  // of an agent that is not registered
	Away     Outcome = "away"     // of an agent that is not there
	Busy     Outcome = "busy"     // too many were under way
	Invalid  Outcome = "invalid"  // it is none of the Kubernetes API
	Gone     Outcome = "gone"     // the caller has gone before there was an answer
	Failed   Outcome = "failed"   // there was no answer
	Broken   Outcome = "broken"   // the answer has broken off, and the caller was still there
)

// Outcomes are all there are.
func Outcomes() []Outcome {
	return []Outcome{Answered, Unproven, Unknown, Away, Busy, Invalid, Gone, Failed, Broken}
}

// counts count outcomes.
type counts struct {
	mu  sync.Mutex
	all map[Outcome]uint64
}

func (c *counts) add(o Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[Outcome]uint64{}
	}
	c.all[o]++
}

func (c *counts) of(o Outcome) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[o]
}
