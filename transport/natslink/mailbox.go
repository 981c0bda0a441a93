package natslink

import (
	"sync"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// mailboxValues is how many values may wait for the reader.
const mailboxValues = 64

// A mailbox holds what Receive returns next. Values queue. What the reader should know of
// the peer and of the log is a state: the reader is told what differs from what it was
// told last.
type mailbox struct {
	values  chan transport.Delivery // Values, and Replayed between them
	changed chan struct{}           // holds one element once the state has changed

	mu       sync.Mutex
	replayed bool                // Replayed has been given
	lost     bool                // LogLost is to be given
	peer     *transport.Presence // the process that is there now
	told     *transport.Presence // the one that the reader believes in: the same or another
}

func newMailbox() *mailbox {
	return &mailbox{values: make(chan transport.Delivery, mailboxValues), changed: make(chan struct{}, 1)}
}

func (m *mailbox) logLost() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost = true
	m.wake()
}

// there sets the process that is there; nil is none.
func (m *mailbox) there(p *transport.Presence) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.peer = p
	m.wake()
}

func (m *mailbox) wake() {
	signal(m.changed)
}

// taken notes that d was given to the reader.
func (m *mailbox) taken(d transport.Delivery) {
	if d.Event == transport.Replayed {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.replayed = true
		m.wake()
	}
}

// news returns what the reader is to be told of the peer and the log, one thing at a time.
func (m *mailbox) news() (transport.Delivery, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := transport.Delivery{Ack: func() {}}
	switch {
	case !m.replayed:
		return d, false
	case m.lost:
		m.lost = false
		d.Event = transport.LogLost
	case m.told != nil && m.told != m.peer:
		m.told = nil
		d.Event = transport.Down
	case m.told == nil && m.peer != nil:
		m.told = m.peer
		d.Event, d.Presence = transport.Up, *m.peer
	default:
		return d, false
	}
	return d, true
}
