package natslink

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Accounts are those of the agents on the principal's server, one each: an agent's
// connection is in it, alone with one of this process. The server never gives up an account
// that was made while it runs, so that one which an agent has left is given to the next:
// there are as many as there were agents at once.
type accounts struct {
	mu   sync.Mutex
	of   map[string]string // by agent
	free []string
	made int
}

// take returns the account of an agent, which has one from now on.
func (a *accounts) take(agent string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	name, has := a.of[agent]
	switch n := len(a.free); {
	case has:
		return name
	case n > 0:
		name, a.free = a.free[n-1], a.free[:n-1]
	default:
		a.made++
		name = fmt.Sprintf("AG_%d", a.made)
	}
	a.of[agent] = name
	return name
}

// leave takes the account of an agent from it. It is to be given back, empty.
func (a *accounts) leave(agent string) (name string, had bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name, had = a.of[agent]
	delete(a.of, agent)
	return name, had
}

func (a *accounts) giveBack(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free = append(a.free, name)
}

// vacate closes the connections of an account until there is none. None may be let in any
// more.
func (n *node) vacate(ctx context.Context, name string) error {
	account, err := n.current().LookupAccount(name)
	if err != nil {
		return nil // the server is another by now, and has none
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stopPatience, fmt.Errorf("connections do not end within %v", stopPatience))
	defer cancel()
	for {
		if err := n.kick(name); err != nil {
			return err
		}
		if account.NumConnections() == 0 {
			return nil
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}
