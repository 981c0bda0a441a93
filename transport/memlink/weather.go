package memlink

import "time"

// A Weather is how bad a line is. The zero Weather is perfect: what is sent arrives before
// Send returns.
type Weather struct {
	Line State
	// Delay is about how long values take. They cross in waves, up to Delay apart, each a
	// random half of those that wait, in random order.
	Delay time.Duration
	// Repeat is the chance that a value is delivered again, below 1.
	Repeat float64
	// Break is the chance that the connection breaks when a value has crossed. It is there
	// again after a random time of up to Delay.
	Break float64
}

// A State says whether a line lets anything pass.
type State uint8

// The states of a line.
const (
	Whole     State = iota
	Cut             // both ends know at once that nothing passes
	BlackHole       // nothing passes, and nobody knows before Config.Notice
)

// A Store is one of the four places where the messages of a Link are.
type Store uint8

// The stores of a Link.
const (
	HubLog    Store = iota // what the principal has sent
	AgentCopy              // what the agent has received
	AgentLog               // what the agent has sent
	HubCopy                // what the principal has received
)

// A Traffic counts the messages that have crossed a line in one direction.
type Traffic struct {
	Values     int // of keys that are not reserved
	Tombstones int // of keys that are not reserved
	Reserved   int // of keys that begin with "$"
}
