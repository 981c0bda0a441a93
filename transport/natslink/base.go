package natslink

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// A base is what a Hub stands on: a server of NATS within this process (embedded), or servers
// elsewhere (cluster). It knows connections and keeps streams, and leaves to the Hub and its guard
// what they are for.
type base interface {
	// open has it serve, and returns connections to where streams are kept. After an error there is
	// nothing to close.
	open(ctx context.Context) ([]jetstream.JetStream, error)
	// keep keeps it serving until ctx is done. If it must not serve any more it says so, and why.
	keep(ctx context.Context, unfit func(error))
	// close ends it.
	close()
	// way returns the way to an agent. It is called once for each Link.
	way(agent string) (way, error)
	// vacate ends the connections of an agent, of which none may be let in any more.
	vacate(ctx context.Context, agent string) error
}

// A way is how an agent is reached.
type way struct {
	wire      wire
	inbox     string        // prefix of where the agent may await answers; "" is that all it can name is its own
	reachable func() bool   // whether it listens
	session   func() uint64 // names its connection; 0 is none
	sever     func(uint64)  // closes a connection
}
