package linktest

import (
	"testing"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A Network is one principal and its agents over the transport under test, with faults
// on request. The suite plays the processes: it starts them, opens their Links and ends
// them, in any order, and a principal or an agent may be the first to start.
//
// Methods are called from the goroutine of the test, and fail the test where they cannot
// do what they are asked to.
type Network interface {
	// StartHub starts a process of the principal on what its stores hold, and returns its
	// Hub, whose Run runs. The process before has been stopped.
	StartHub(t testing.TB) transport.Hub
	// StopHub ends the principal's process; its Links may be open, and are closed by it.
	// Run has returned when StopHub does. It is called only while the process runs.
	StopHub(t testing.TB)
	// StartAgent starts a process of an agent on what its stores hold, and returns its
	// Dialer. The process before has ended: it does when its Link is closed. The agent need
	// not be registered, but has what it needs to prove its name.
	StartAgent(t testing.TB, agent string) transport.Dialer
	// Fault puts the line between an agent and the principal into a state, until the next
	// call. It begins Healthy.
	Fault(t testing.TB, agent string, f Fault)
	// Wipe loses one store: at once if the process that keeps it runs (as when an operator
	// deletes it), and from its disk if not. It is called for stores that are Kept, and only
	// once the Link to the agent has been open on both sides.
	Wipe(t testing.TB, agent string, s Store)
}

// A Fault is the state of the line between one agent and the principal.
type Fault uint8

// The states of a line.
const (
	Healthy   Fault = iota
	Cut             // connections are closed, and new ones refused
	BlackHole       // half open: nothing is closed or refused, but no byte arrives on either side
	Slow            // bytes take 20 ms to 200 ms, and no more than about 1 MiB/s passes
)

// String returns the name of f.
func (f Fault) String() string {
	return [...]string{"healthy", "cut", "black hole", "slow"}[f]
}

// A Store is one of the four places where a Link's messages are.
type Store uint8

// The stores of one Link.
const (
	HubLog    Store = iota // what the principal has sent
	AgentCopy              // what the agent has received
	AgentLog               // what the agent has sent
	HubCopy                // what the principal has received
)

// String returns the name of s.
func (s Store) String() string {
	return [...]string{"HubLog", "AgentCopy", "AgentLog", "HubCopy"}[s]
}

// Traits is what a transport promises beyond what every Link does.
type Traits struct {
	// Kept says which stores outlive the process that uses them. Where a log is not kept,
	// it holds what the peer has not acked for as long as its process lives.
	Kept map[Store]bool
}
