package natslink

import (
	"context"
	"crypto/tls"
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

// A caller is a connection from outside that is to be decided on.
type caller struct {
	id    uint64                   // names it to whoever severs it
	kind  int                      // server.LEAF or server.CLIENT
	from  net.Addr                 // as the server sees it
	where func() net.Addr          // where it comes from really; nil if it has hung up
	tls   *tls.ConnectionState     // nil if there is no TLS
	login identity.Login           // zero if none was given
	says  string                   // what the agent says of itself
	enter func(agent string) error // lets it in
}

// A guard decides on connections from outside: only registered agents are let in, each
// with its own rights, and only for as long as their certificates hold. It is the same be they
// to a server of this process or to servers elsewhere.
type guard struct {
	authenticate identity.Prover
	trust        *identity.Credentials
	callers      *callers
	log          *zap.Logger
	strangers    func(transport.Stranger) // is told of those that are not registered; nil is nobody
	patience     time.Duration            // how long an agent that is not known may wait at the door
	single       bool                     // the servers do not see to it that there is one connection of a leaf node

	mu       sync.Mutex
	users    map[string]bool      // the agents that are registered
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

func newGuard(authenticate identity.Prover, trust *identity.Credentials, calls *callers, log *zap.Logger) *guard {
	return &guard{
		authenticate: authenticate, trust: trust, callers: calls, log: log, patience: atDoor,
		users: map[string]bool{}, sessions: map[string]session{}, refused: map[string]time.Time{},
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
	late := time.NewTimer(g.patience)
	defer late.Stop()
	for {
		g.mu.Lock()
		known, changed := g.users[agent] || time.Since(g.opened) > settling, g.changed
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

func (g *guard) register(agent string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users[agent] = true
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

// admit lets a connection in as the agent that it proves to be, or returns why it is refused. One
// that was let in has its rights before another agent can be let in or removed.
func (g *guard) admit(c caller) error {
	proof, err := g.prove(c)
	agent := proof.Agent
	if err == nil {
		g.await(agent)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	from := c.where()
	if from == nil {
		return errHungUp
	}
	if err == nil {
		err = g.trust.Trusts(proof, time.Now()) // by what may have come since it was met
	}
	if err == nil && !g.users[agent] {
		err = transport.ErrUnknown
		if g.strangers != nil {
			g.strangers(transport.Stranger{Agent: agent, From: from.String(), Says: c.says})
		}
	}
	if err == nil && time.Now().Before(g.held[agent]) {
		err = fmt.Errorf("another agent of that name is connected from %s", g.from[agent][0])
	}
	if err == nil {
		err = c.enter(agent)
	}
	if err != nil {
		g.refuse(agent, from, err)
		return err
	}
	before := g.sessions[agent]
	if g.single || c.kind == server.CLIENT || before.kind == server.CLIENT {
		g.callers.sever(before.id) // as a server does itself among leaf nodes of one name
	}
	g.sessions[agent] = session{c.id, c.kind, proof}
	g.from[agent] = [2]string{from.String(), g.from[agent][0]}
	g.callers.enter(agent, c.id)
	return nil
}

// errHungUp is of a connection that was not waited for.
var errHungUp = errors.New("it has hung up meanwhile")

// adopt takes in a connection that a process before this has let in, unless there is a newer one.
func (g *guard) adopt(agent string, c caller) error {
	proof, err := g.prove(c)
	if err == nil && proof.Agent != agent {
		err = fmt.Errorf("it is of %.80q by now", proof.Agent)
	}
	if err == nil {
		err = g.trust.Trusts(proof, time.Now())
	}
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sessions[agent].id != 0 {
		return errors.New("there is a newer one")
	}
	g.sessions[agent] = session{c.id, c.kind, proof}
	g.from[agent] = [2]string{c.where().String()}
	return nil
}

// strays returns the connections of agents that are not registered.
func (g *guard) strays() (all []uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for agent, s := range g.sessions {
		if !g.users[agent] {
			all = append(all, s.id)
			delete(g.sessions, agent)
		}
	}
	return all
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
func (g *guard) prove(c caller) (identity.Proof, error) {
	switch {
	case c.kind != server.LEAF && c.kind != server.CLIENT:
		return identity.Proof{}, errors.New("neither a leaf node nor a client")
	case c.tls == nil:
		return identity.Proof{}, errors.New("no TLS")
	}
	return g.authenticate(g.trust, identity.Shown{From: c.from, TLS: c.tls, Login: c.login})
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
