package memlink

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A side is one end of a line.
type side uint8

const (
	hub side = iota
	agent
)

// A line is what there is between the principal and one agent: both tables, and the Links
// that are open.
type line struct {
	name   string
	config Config
	mu     sync.Mutex
	rnd    *rand.Rand
	known  bool // the agent is registered

	weather Weather
	spell   int          // counts the weathers
	broken  bool         // the connection broke by chance, and is not yet to come back
	ends    [2]*link     // those that are open, by side
	conn    *connection  // nil if there is none
	tables  [2]direction // by the side that writes
}

// A connection joins two Links.
type connection struct {
	ends    [2]*link
	streams [2]*carrier // by the side that sends
}

func newLine(name string, c Config) *line {
	l := &line{name: name, config: c, rnd: source(c.Seed, name), weather: c.Weather}
	for s := range l.tables {
		l.tables[s] = newDirection(random(l.rnd))
	}
	return l
}

// start prepares for a process on side s.
func (l *line) start(s side) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.config.Keeps {
		l.tables[s].begin(random(l.rnd))
	}
}

func (l *line) set(w Weather) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.weather = w
	l.spell++
	if spell := l.spell; w.Line == BlackHole {
		l.after(l.config.Notice, func() {
			if l.spell == spell {
				l.disconnect()
			}
		})
	}
	l.settle()
}

// after calls f, under the lock, when d has passed.
func (l *line) after(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		f()
	})
}

// settle makes the connection what it should be after something has changed, and lets
// flow what may.
func (l *line) settle() {
	if l.conn != nil && (l.weather.Line == Cut || l.weather.Line == Whole && l.conn.ends != l.ends) {
		l.disconnect()
	}
	if l.conn == nil && l.weather.Line == Whole && !l.broken && l.ends[hub] != nil && l.ends[agent] != nil {
		l.conn = &connection{ends: l.ends}
		l.conn.join()
	}
	l.flow(hub)
	l.flow(agent)
	l.carry()
}

func (l *line) disconnect() {
	if l.conn == nil {
		return
	}
	l.conn.part()
	l.conn = nil
}

// flow lets cross what waits in the table of side s, or has a wave do so later.
func (l *line) flow(s side) {
	d := &l.tables[s]
	switch {
	case !l.passes() || d.moving.len() == 0:
		return
	case l.weather.Delay == 0:
		l.move(s, d.moving.len())
		return
	case d.waving:
		return
	}
	d.waving = true
	l.after(l.chance(l.weather.Delay), func() {
		d.waving = false
		d.moving.shuffle(l.rnd)
		l.move(s, (d.moving.len()+1)/2)
		l.flow(s)
	})
}

// passes reports whether anything may cross now.
func (l *line) passes() bool { return l.conn != nil && l.weather.Line == Whole }

// move lets cross the first n rows that wait in the table of side s.
func (l *line) move(s side, n int) {
	d := &l.tables[s]
	for ; n > 0 && l.passes(); n-- {
		k := d.moving.pop()
		v, ok := d.cross(k)
		if !ok {
			continue
		}
		l.conn.ends[1-s].arrived(v)
		if l.rnd.Float64() < l.weather.Break {
			l.snap()
		}
	}
}

// snap breaks the connection for a while.
func (l *line) snap() {
	l.broken = true
	l.disconnect()
	l.after(l.chance(l.weather.Delay), func() {
		l.broken = false
		l.settle()
	})
}

// chance returns a random time of up to d.
func (l *line) chance(d time.Duration) time.Duration {
	return time.Duration(l.rnd.Int64N(int64(d) + 1))
}

func (l *line) lose(s Store) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch s {
	case HubLog:
		l.loseLog(hub)
	case AgentLog:
		l.loseLog(agent)
	case AgentCopy:
		l.tables[hub].empty()
	case HubCopy:
		l.tables[agent].empty()
	}
	l.settle()
}

// loseLog loses what side s has sent.
func (l *line) loseLog(s side) {
	d := &l.tables[s]
	d.begin(random(l.rnd))
	if e := l.ends[s]; e != nil {
		e.inbox.LogLost()
	}
}

// forget removes what the principal keeps, and lets the agent in no more.
func (l *line) forget() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.known:
		return transport.ErrUnknown
	case l.ends[hub] != nil:
		return errors.New("its link is open")
	}
	l.known = false
	l.tables[hub].begin(random(l.rnd))
	l.tables[agent].empty()
	return nil
}

func (l *line) registered() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known
}

func (l *line) age() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.tables {
		l.tables[s].age()
	}
}

func (l *line) traffic() (down, up Traffic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tables[hub].counts, l.tables[agent].counts
}
