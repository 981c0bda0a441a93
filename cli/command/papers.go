package command

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// Why whoever has come to a principal is not let in, as metrics tell it.
const (
	unproven     = "unproven"     // nothing proves a name
	blocked      = "blocked"      // it is on the blocklist
	unregistered = "unregistered" // it has proven a name that is no agent's
)

// maxPapers is of how many names it is kept when their certificates expire. Only whom the CA has
// given a certificate has one, and of those that are no agents it is forgotten.
const maxPapers = 50_000

// papers are when the certificates expire by which agents have proved their names last, and how
// often somebody was not let in, and why.
type papers struct {
	mu      sync.Mutex
	expire  map[string]time.Time
	refused map[string]uint64
}

func newPapers() *papers {
	return &papers{expire: map[string]time.Time{}, refused: map[string]uint64{unproven: 0, blocked: 0, unregistered: 0}}
}

// watch returns a Prover that does as another does, and has papers take note.
func (p *papers) watch(prove identity.Prover) identity.Prover {
	return func(own *identity.Credentials, s identity.Shown) (identity.Proof, error) {
		proof, err := prove(own, s)
		switch {
		case err != nil:
			p.refuse(unproven)
		case own.Blocked(proof) != nil:
			p.refuse(blocked)
		default:
			p.note(proof)
		}
		return proof, err
	}
}

// met returns what is told of strangers, beside another who is; nil is nobody.
func (p *papers) met(other strangers) strangers {
	return func(s transport.Stranger) {
		p.refuse(unregistered)
		if other != nil {
			other(s)
		}
	}
}

func (p *papers) refuse(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused[why]++
}

func (p *papers) note(proof identity.Proof) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(proof.Certificates) == 0 {
		delete(p.expire, proof.Agent)
		return
	}
	if _, known := p.expire[proof.Agent]; known || len(p.expire) < maxPapers {
		p.expire[proof.Agent] = proof.Certificates[0].NotAfter
	}
}

// of returns when the certificate of an agent expires; zero if that is not known.
func (p *papers) of(agent string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.expire[agent]
}

// tidying is how often those are forgotten that are no agents, or no more.
const tidying = time.Minute

// run keeps papers of the agents that there are, until ctx is done, and returns its cause.
func (p *papers) run(ctx context.Context, agents func() []string) error {
	for {
		select {
		case <-time.After(tidying):
			p.keep(agents())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (p *papers) keep(agents []string) {
	there := map[string]bool{}
	for _, agent := range agents {
		there[agent] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.expire, func(agent string, _ time.Time) bool { return !there[agent] })
}

// refusals returns how often somebody was not let in, by why.
func (p *papers) refusals() map[string]uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.refused)
}
