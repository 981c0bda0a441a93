package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/proxy"
)

// spokes read from the Redis of agents, and know how that went.
type spokes struct {
	open    proxy.Opener
	timeout time.Duration
	limit   int
	kept    *kept
	log     *zap.Logger

	mu      sync.Mutex
	gates   map[string]*gate   // by agent that is being asked
	failing map[string]failing // agents that did not answer the last
	counts  map[Outcome]uint64
}

// maxAsked is how many questions to one agent may be under way. Others wait, as long as an
// answer may take.
const maxAsked = 32

// A gate is where those wait who ask one agent.
type gate struct {
	asking chan struct{} // full if no more may
	users  int           // who ask, or wait
	taken  atomic.Int64  // bytes of answers that are under way
}

// maxAnswers is how many of the largest answers may be under way from one agent: it could have
// the principal hold so much, and no more, while it is asked.
const maxAnswers = 2

// A metered connection counts what is read of an answer, until it is released.
type metered struct {
	net.Conn
	gate *gate
	most int64 // that all answers of the agent may take
	read int64
}

var errGreedy = errors.New("the agent's answers that are under way are too large together")

// Read implements net.Conn.
func (m *metered) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	m.read += int64(n)
	if m.gate.taken.Add(int64(n)) > m.most {
		return n, errGreedy
	}
	return n, err
}

func (m *metered) release() { m.gate.taken.Add(-m.read) }

// An Outcome says how something that was read of an agent was answered.
type Outcome string

// The outcomes.
const (
	Fresh   Outcome = "fresh"   // by the agent
	Missing Outcome = "missing" // by nil, as the agent has nothing there, or not that Application
	Kept    Outcome = "kept"    // by what the agent has told last, as it does not answer
	Unknown Outcome = "unknown" // by nil, as it does not answer, and nothing is kept
)

// failing says how it stands with an agent that does not answer.
type failing struct {
	since time.Time
	last  time.Time // when it was asked last
	told  time.Time // when the oldest value was told that was given in its place; zero is none
}

// A reading is a command that is answered by an agent.
type reading struct {
	kind byte                 // of its answers
	none func(version) []byte // the answer where the agent has nothing
	some func([]byte) []byte  // where it has told a value before, and does not answer now
}

// readings are all of them. They are asked of one key each.
var readings = map[string]reading{
	"GET":    {'$', version.null, func(value []byte) []byte { return value }},
	"EXISTS": {':', always(0), func([]byte) []byte { return number(1) }},
	"TTL":    {':', always(-2), func([]byte) []byte { return number(-1) }},
	"PTTL":   {':', always(-2), func([]byte) []byte { return number(-1) }},
}

func always(n int) func(version) []byte { return func(version) []byte { return number(n) } }

// read answers one of readings of a key in the Redis of an agent.
func (s *spokes) read(ctx context.Context, v version, name, agent, key string) []byte {
	how, at := readings[name], place{agent, key}
	value, err := s.ask(ctx, agent, name, key)
	if err == nil && value[0] == '-' {
		err = errors.New(string(plain(value)))
		if strings.HasPrefix(err.Error(), refused) { // it does not have such an Application
			err, value = nil, how.none(2)
		}
	}
	if err != nil {
		value, told, ok := s.kept.get(at)
		if ctx.Err() == nil { // else it is who asks that has gone
			s.failed(agent, err, told)
		}
		if !ok {
			return how.none(v)
		}
		return how.some(value)
	}
	missing := slices.Equal(value, how.none(2))
	s.answered(agent, missing)
	switch {
	case missing:
		s.kept.remove(at)
		return how.none(v)
	case name == "GET":
		s.kept.put(at, value, time.Now())
	}
	return value
}

// ask asks an agent one thing on a stream of its own.
func (s *spokes) ask(ctx context.Context, agent, name, key string) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, s.timeout)
	defer stop()
	g := s.enter(agent)
	defer s.leave(agent, g)
	select {
	case g.asking <- struct{}{}:
		defer func() { <-g.asking }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%d others ask the agent: %w", maxAsked, context.Cause(ctx))
	}
	c, err := s.open(ctx, agent, Service)
	if err != nil {
		return nil, err
	}
	answers := &metered{Conn: c, gate: g, most: maxAnswers * int64(s.limit)}
	defer answers.release()
	l := newLine(answers, s.limit)
	defer l.Close() // the answer is there, or does not matter
	end := context.AfterFunc(ctx, func() { _ = l.SetDeadline(time.Unix(1, 0)) })
	defer end()
	if _, err := l.Write(command(name, key)); err != nil {
		return nil, err
	}
	value, err := l.in.value()
	if err != nil {
		return nil, err
	}
	if kind := value[0]; kind != '-' && kind != readings[name].kind {
		return nil, fmt.Errorf("an answer to %s that begins with %q: %w", name, kind, errProtocol)
	}
	return value, nil
}

func (s *spokes) enter(agent string) *gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gates[agent]
	if g == nil {
		g = &gate{asking: make(chan struct{}, maxAsked)}
		s.gates[agent] = g
	}
	g.users++
	return g
}

func (s *spokes) leave(agent string, g *gate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.users--; g.users == 0 {
		delete(s.gates, agent)
	}
}

// failed notes that an agent did not answer, and when that was told which it was answered by.
func (s *spokes) failed(agent string, err error, told time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	f, before := s.failing[agent]
	if !before {
		f.since = now
	}
	outcome := Unknown
	if f.last = now; !told.IsZero() {
		outcome = Kept
		if f.told.IsZero() || told.Before(f.told) {
			f.told = told
		}
	}
	s.failing[agent] = f
	s.counts[outcome]++
	if before {
		return
	}
	fields := []zap.Field{zap.String("agent", agent), zap.Error(err)}
	if !told.IsZero() {
		fields = append(fields, zap.Duration("age", now.Sub(told).Round(time.Second)))
	}
	s.log.Warn("an agent's Redis does not answer: what it has told last is shown, if it is kept", fields...)
}

func (s *spokes) answered(agent string, missing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, before := s.failing[agent]; before {
		delete(s.failing, agent)
		s.log.Info("an agent's Redis answers again", zap.String("agent", agent), zap.Duration("after", time.Since(f.since).Round(time.Second)))
	}
	if missing {
		s.counts[Missing]++
	} else {
		s.counts[Fresh]++
	}
}
