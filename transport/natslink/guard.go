package natslink

import (
	"crypto/tls"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// Refusals are logged once per reason in this time, since agents try again and again.
const refusalInterval = time.Minute

// maxRefusals bounds how many reasons are remembered.
const maxRefusals = 1000

// A guard decides on connections from outside: only registered agents are let in, each
// into its own account.
type guard struct {
	authenticate func(tls.ConnectionState) (string, error)
	log          *zap.Logger

	mu       sync.Mutex
	users    map[string]func() *server.User // of the server that runs, by agent
	sessions map[string]uint64              // the connection that was let in last, by agent
	refused  map[string]time.Time           // when a reason was logged last
}

func newGuard(authenticate func(tls.ConnectionState) (string, error), log *zap.Logger) *guard {
	return &guard{
		authenticate: authenticate, log: log,
		users: map[string]func() *server.User{}, sessions: map[string]uint64{}, refused: map[string]time.Time{},
	}
}

func (g *guard) register(agent string, u func() *server.User) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users[agent] = u
}

// remove unregisters an agent and reports whether it was registered.
func (g *guard) remove(agent string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, known := g.users[agent]
	delete(g.users, agent)
	delete(g.sessions, agent)
	return known
}

// agents returns those that are registered.
func (g *guard) agents() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.users))
}

// session returns the number of the connection that an agent has opened last.
func (g *guard) session(agent string) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sessions[agent]
}

// admit lets a connection in as the user that it may be, and reports whether it has. One
// that was let in is in its account before another agent can be let in or removed.
func (g *guard) admit(c server.ClientAuthentication) bool {
	agent, err := g.name(c)
	g.mu.Lock()
	defer g.mu.Unlock()
	u := g.users[agent]
	if err == nil && u == nil {
		err = transport.ErrUnknown
	}
	if err != nil {
		g.refuse(agent, c, err)
		return false
	}
	g.sessions[agent] = c.GetID()
	c.RegisterUser(u())
	return true
}

// restarted notes that the server was made anew: its connections are numbered anew.
func (g *guard) restarted() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.sessions)
}

func (g *guard) name(c server.ClientAuthentication) (string, error) {
	state := c.GetTLSConnectionState()
	switch {
	case c.Kind() != server.LEAF:
		return "", errors.New("not a leaf node")
	case state == nil:
		return "", errors.New("no TLS")
	}
	return g.authenticate(*state)
}

// refuse logs why a connection is refused. It is called with the lock held.
func (g *guard) refuse(agent string, c server.ClientAuthentication, err error) {
	now, reason := time.Now(), agent+" "+err.Error()
	if now.Sub(g.refused[reason]) < refusalInterval {
		return
	}
	if len(g.refused) >= maxRefusals {
		clear(g.refused)
	}
	g.refused[reason] = now
	g.log.Warn("refused a connection", zap.String("agent", agent), zap.Stringer("from", c.RemoteAddress()), zap.Error(err))
}
