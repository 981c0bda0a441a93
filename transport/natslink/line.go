package natslink

import "time"

// maxPatience bounds for how long a connection that carries nothing is kept.
const maxPatience = 5 * time.Minute

// A line is what is known of the connection to the peer's server.
//
// A connection may be there and carry nothing: because one side was never told what the
// other listens to, or because a middlebox passes some bytes and not others. It is closed
// then, and opened again by itself.
type line struct {
	linked  bool      // the peer listens to asks
	session uint64    // names the connection; 0 is none
	since   time.Time // since when it has carried no answer
	severed int       // how many connections on end have carried none
}

// look takes in how things are, and since when this side asks in vain. It reports whether
// an ask that is open can have been lost.
func (l *line) look(linked bool, session uint64, asks, now time.Time) (changed bool) {
	changed = linked != l.linked || session != l.session
	if session != l.session {
		l.since = now
	}
	if asks.After(l.since) {
		l.since, l.severed = asks, 0
	}
	l.linked, l.session = linked, session
	return changed
}

// useless reports that the connection should be closed, since it carries nothing. It then
// counts as a new one.
func (l *line) useless(heartbeat time.Duration, now time.Time) bool {
	patience := min(3*heartbeat<<min(l.severed, 10), maxPatience)
	if l.session == 0 || now.Sub(l.since) < patience {
		return false
	}
	l.severed++
	l.since = now
	return true
}

// A bearing is who an open ask was said to, and by how many connections before. Between the two ends may
// be servers of neither: then the peer is another, or a server on the way, while each connection that
// is seen here stays.
type bearing struct {
	end    string // the peer's, when it was there last
	remade uint64
}

// look takes in how things are, and reports whether an ask that is open can have been lost.
func (b *bearing) look(end string, remade uint64) (changed bool) {
	changed = remade != b.remade || (b.end != "" && end != "" && end != b.end)
	if b.remade = remade; end != "" {
		b.end = end
	}
	return changed
}
