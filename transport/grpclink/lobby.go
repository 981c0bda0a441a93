package grpclink

import (
	"net"
	"sync"
)

// maxConnections is how many connections one agent may have at once: the one that it uses, and
// those that nobody has noticed yet are gone. Whoever opens more of them loses the oldest.
const maxConnections = 8

// A lobby has the connections that there are, by agent. The zero lobby is empty.
type lobby struct {
	mu  sync.Mutex
	all map[string][]*guest // the oldest first
}

// A guest is a connection that is in a lobby until it is closed.
type guest struct {
	net.Conn
	lobby *lobby
	agent string
}

// enter takes a connection of an agent in, and returns the one that is too many, if one is.
func (l *lobby) enter(agent string, conn net.Conn) (is, extra *guest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	is = &guest{conn, l, agent}
	if l.all == nil {
		l.all = map[string][]*guest{}
	}
	all := append(l.all[agent], is)
	if len(all) > maxConnections {
		extra, all = all[0], all[1:]
	}
	l.all[agent] = all
	return is, extra
}

// Close implements net.Conn.
func (g *guest) Close() error {
	g.lobby.leave(g)
	return g.Conn.Close()
}

func (l *lobby) leave(g *guest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var left []*guest
	for _, other := range l.all[g.agent] {
		if other != g {
			left = append(left, other)
		}
	}
	l.all[g.agent] = left
	if len(left) == 0 {
		delete(l.all, g.agent)
	}
}
