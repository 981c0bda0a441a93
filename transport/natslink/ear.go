package natslink

import (
	"sync/atomic"

	"github.com/nats-io/nats-server/v2/server"
)

// An ear knows whether somebody, here or behind the link, listens to a subject in an account of a node. It
// is asked several times for each message, and by each Link that has nothing to do.
type ear struct {
	node    *node
	account string
	subject string
	last    atomic.Pointer[listened]
}

// A listened is the account on the server that it was looked up on. The server can be made anew.
type listened struct {
	*server.Account
	on *server.Server
}

func newEar(n *node, account, subject string) *ear {
	return &ear{node: n, account: account, subject: subject}
}

// hears reports whether somebody listens now.
func (e *ear) hears() bool {
	s, in := e.node.current(), e.last.Load()
	if in == nil || in.on != s {
		a, err := s.LookupAccount(e.account)
		if err != nil {
			return false
		}
		in = &listened{a, s}
		e.last.Store(in)
	}
	return in.SubscriptionInterest(e.subject)
}
