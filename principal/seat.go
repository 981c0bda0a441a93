package principal

import (
	"context"
	"sync"
	"time"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// A State says what the Principal does about an agent.
type State uint8

// The states of an agent.
const (
	Starting State = iota // its link is being opened, and the hub's objects are being listed
	Serving               // its session runs, whether it is connected or not
	Failing               // its session has failed, and will be tried again
	Leaving               // it is no longer registered, and what is kept for it is being removed
)

// String returns the state in lower case.
func (s State) String() string {
	return [...]string{"starting", "serving", "failing", "leaving"}[s]
}

// An AgentStatus says how an agent stands.
type AgentStatus struct {
	Name    string
	Mode    resource.Mode
	State   State
	Err     error          // why it is Failing, or not gone yet
	Session session.Status // while Serving
	// Troubles are what befalls what is kept for it, or for all agents.
	Troubles []transport.Trouble
}

// A seat is what the Principal knows of one agent. It has at most one job at a time, and
// what comes next is decided, when that has ended, from what is wanted then: an agent may
// leave, come back and change its mode while it is still being forgotten.
type seat struct {
	want   *backend.Agent // nil: that it be forgotten
	kept   bool           // something may be kept for it
	job    *job
	status AgentStatus
	live   *live // while Serving
}

// live is what runs for an agent that is served.
type live struct {
	session *session.Session
	link    transport.Link
	began   time.Time
}

// A job serves an agent as it was registered, or forgets it.
type job struct {
	serves *backend.Agent // nil: it forgets
	stop   context.CancelFunc
}

// still reports whether j is what is wanted.
func (j *job) still(want *backend.Agent) bool {
	if j.serves == nil || want == nil {
		return j.serves == want
	}
	return *j.serves == *want
}

// An ending says that the job of an agent has ended.
type ending struct {
	agent     string
	forgotten bool
}

// follow keeps one seat for each agent of the newest set. It alone adds and removes seats,
// and starts jobs; it returns when all of them have ended.
func (p *Principal) follow(ctx context.Context, sets <-chan []backend.Agent) error {
	var jobs sync.WaitGroup
	defer jobs.Wait()
	endings := make(chan ending)
	start := func(agent string, run func() (forgotten bool)) {
		jobs.Go(func() {
			e := ending{agent, run()}
			select {
			case endings <- e:
			case <-ctx.Done():
			}
		})
	}
	for {
		select {
		case set := <-sets:
			left := p.first(ctx, set)
			if p.allot != nil {
				p.allot.enrol(set, left)
			}
			for _, agent := range p.wanted(set, left) {
				p.advance(ctx, agent, start)
			}
		case e := <-endings:
			p.ended(e)
			if e.forgotten && p.allot != nil {
				p.allot.forgotten(e.agent)
			}
			p.advance(ctx, e.agent, start)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// first returns the leftovers if set is the first that the registry shows.
func (p *Principal) first(ctx context.Context, set []backend.Agent) []string {
	p.mu.Lock()
	listed := p.listed
	p.shown = true
	p.mu.Unlock()
	if listed {
		return nil
	}
	return p.leftovers(ctx, set)
}

// wanted notes which agents there are to be, and returns all those that there are or were,
// some of them before this process.
func (p *Principal) wanted(set []backend.Agent, left []string) (agents []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listed = true
	for _, agent := range left {
		p.seats[agent] = &seat{kept: true, status: AgentStatus{Name: agent}}
	}
	for _, s := range p.seats {
		s.want = nil
	}
	for _, a := range set {
		if p.seats[a.Name] == nil {
			p.seats[a.Name] = &seat{}
		}
		p.seats[a.Name].want = &a
	}
	for agent := range p.seats {
		agents = append(agents, agent)
	}
	return agents
}

func (p *Principal) ended(e ending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.seats[e.agent]
	s.job, s.live, s.kept = nil, nil, s.kept && !e.forgotten
}

// advance brings one agent a step nearer to what is wanted of it.
func (p *Principal) advance(ctx context.Context, agent string, start func(string, func() bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.seats[agent]
	if s.job != nil {
		if !s.job.still(s.want) {
			s.job.stop()
		}
		return
	}
	if s.want == nil && !s.kept {
		delete(p.seats, agent)
		return
	}
	ctx, stop := context.WithCancel(ctx)
	s.job = &job{serves: s.want, stop: stop}
	if want := s.want; want != nil {
		s.kept, s.status = true, AgentStatus{Name: agent, Mode: want.Mode, State: Starting}
		start(agent, func() bool { defer stop(); p.serve(ctx, s, *want); return false })
	} else {
		s.status.State, s.status.Err = Leaving, nil
		start(agent, func() bool { defer stop(); return p.forget(ctx, s, agent) })
	}
}
