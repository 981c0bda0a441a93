package natslink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// Refusals are logged once per reason in this time, since agents try again and again.
const refusalInterval = time.Minute

// A hub that has just started may not have been told yet which agents there are. For so
// long after its start, agents that it does not know wait at the door, each for so long.
const (
	settling = 10 * time.Second
	atDoor   = 5 * time.Second
)

// maxRefusals bounds how many reasons are remembered.
const maxRefusals = 1000

// A guard decides on connections from outside: only registered agents are let in, each
// into its own account, and only for as long as their certificates hold.
type guard struct {
	authenticate identity.Prover
	trust        *identity.Credentials
	callers      *callers
	origin       func(net.Addr) net.Addr // of a connection that this process itself has passed on
	log          *zap.Logger
	strangers    func(transport.Stranger) // is told of those that are not registered; nil is nobody

	mu       sync.Mutex
	users    map[string]newUser   // of the server that runs, by agent
	sessions map[string]session   // the connection that was let in last, by agent
	refused  map[string]time.Time // when a reason was logged last
	held     map[string]time.Time // until when no other connection of an agent is let in
	from     map[string][2]string // where the last two connections of an agent came from, the newest first
	opened   time.Time            // when the hub started
	changed  chan struct{}        // closed when another agent is registered, or nobody needs to wait any more
}

// A session is a connection of an agent.
type session struct {
	id    uint64
	kind  int            // server.LEAF or server.CLIENT
	proof identity.Proof // by which it was let in
}

// A newUser makes the user that an agent's connection is let in as.
type newUser func() (*server.User, error)

func newGuard(authenticate identity.Prover, trust *identity.Credentials, calls *callers, origin func(net.Addr) net.Addr, log *zap.Logger) *guard {
	return &guard{
		authenticate: authenticate, trust: trust, callers: calls, origin: origin, log: log,
		users: map[string]newUser{}, sessions: map[string]session{}, refused: map[string]time.Time{},
		held: map[string]time.Time{}, from: map[string][2]string{}, changed: make(chan struct{}),
	}
}

// open notes that the hub starts.
func (g *guard) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = time.Now()
}

// close lets nobody wait any more.
func (g *guard) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = time.Time{}
	close(g.changed)
	g.changed = make(chan struct{})
}

// await has an agent that is not known wait, if the hub has just started.
func (g *guard) await(agent string) {
	late := time.NewTimer(atDoor)
	defer late.Stop()
	for {
		g.mu.Lock()
		known, changed := g.users[agent] != nil || time.Since(g.opened) > settling, g.changed
		g.mu.Unlock()
		if known {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			return
		}
	}
}

func (g *guard) register(agent string, u newUser) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users[agent] = u
	close(g.changed)
	g.changed = make(chan struct{})
}

// remove unregisters an agent and reports whether it was registered.
func (g *guard) remove(agent string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, known := g.users[agent]
	delete(g.users, agent)
	delete(g.sessions, agent)
	delete(g.held, agent)
	delete(g.from, agent)
	g.callers.leave(agent)
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
	return g.sessions[agent].id
}

// admit lets a connection in as the user that it may be, and reports whether it has. One
// that was let in is in its account before another agent can be let in or removed.
func (g *guard) admit(c server.ClientAuthentication) bool {
	proof, err := g.prove(c)
	agent := proof.Agent
	if err == nil {
		g.await(agent)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	from := g.origin(c.RemoteAddress())
	if from == nil {
		return false // it has hung up meanwhile
	}
	if err == nil {
		err = g.trust.Trusts(proof, time.Now()) // by what may have come since it was met
	}
	if err == nil && g.users[agent] == nil {
		err = transport.ErrUnknown
		if g.strangers != nil {
			g.strangers(transport.Stranger{Agent: agent, From: from.String(), Says: saidBy(c.GetOpts())})
		}
	}
	if err == nil && time.Now().Before(g.held[agent]) {
		err = fmt.Errorf("another agent of that name is connected from %s", g.from[agent][0])
	}
	var u *server.User
	if err == nil {
		u, err = g.users[agent]()
	}
	if err != nil {
		g.refuse(agent, from, err)
		return false
	}
	if before := g.sessions[agent]; c.Kind() == server.CLIENT || before.kind == server.CLIENT {
		g.callers.sever(before.id) // as the server does itself among leaf nodes of one name
	}
	g.sessions[agent] = session{c.GetID(), c.Kind(), proof}
	g.from[agent] = [2]string{from.String(), g.from[agent][0]}
	c.RegisterUser(u)
	g.callers.enter(agent, c.GetID())
	return true
}

// hold leaves the connection that an agent has now alone for a while, since it has a rival.
func (g *guard) hold(agent string, pause time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.held[agent] = now.Add(pause)
	if g.tell("rivals of "+agent, now) {
		g.log.Error("two agents use one name", zap.String("agent", agent),
			zap.String("from", g.from[agent][0]), zap.String("other", g.from[agent][1]),
			zap.String("advice", "stop one of them, or register it under a name and with a certificate of its own"))
	}
}

// restarted notes that the server was made anew: its connections are numbered anew.
func (g *guard) restarted() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.sessions)
	g.callers.restarted()
}

// prove finds out who has opened a connection.
func (g *guard) prove(c server.ClientAuthentication) (identity.Proof, error) {
	state := c.GetTLSConnectionState()
	switch {
	case c.Kind() != server.LEAF && c.Kind() != server.CLIENT:
		return identity.Proof{}, errors.New("neither a leaf node nor a client")
	case state == nil:
		return identity.Proof{}, errors.New("no TLS")
	}
	return g.authenticate(g.trust, identity.Shown{From: c.RemoteAddress(), TLS: state, Login: loginOf(c.GetOpts())})
}

// watch cuts agents off that are not to be trusted any more: their certificates have expired,
// the CA is another, or they are blocked. They connect again once they are.
func (g *guard) watch(ctx context.Context, sever func(uint64)) {
	g.trust.Patrol(ctx, func(distrusted func(identity.Proof) error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		for agent, s := range g.sessions {
			if err := distrusted(s.proof); err != nil {
				g.log.Warn("an agent is cut off", zap.String("agent", agent), zap.Error(err))
				delete(g.sessions, agent)
				sever(s.id)
			}
		}
	})
}

// refuse logs why a connection is refused. It is called with the lock held.
func (g *guard) refuse(agent string, from net.Addr, err error) {
	if g.tell(agent+" "+reasonOf(err), time.Now()) {
		g.log.Warn("refused a connection", zap.String("agent", agent), zap.Stringer("from", from), zap.Error(err))
	}
}

// reasonOf returns what err says, without the numbers of ports.
func reasonOf(err error) string { return ports.ReplaceAllString(err.Error(), "") }

var ports = regexp.MustCompile(`:[0-9]+$`)

// tell reports whether the log may be told of something again. It is called with the lock
// held.
func (g *guard) tell(what string, now time.Time) bool {
	if now.Sub(g.refused[what]) < refusalInterval {
		return false
	}
	if len(g.refused) >= maxRefusals {
		clear(g.refused)
	}
	g.refused[what] = now
	return true
}
