package failpoint

import (
	"context"
	"strings"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// Hub returns h, whose links have the points of a link.
func (t *Trap) Hub(h transport.Hub) transport.Hub { return hub{h, t} }

// Dialer returns d, whose link has the points of a link.
func (t *Trap) Dialer(d transport.Dialer) transport.Dialer { return dialer{d, t} }

type hub struct {
	transport.Hub
	trap *Trap
}

// Link implements transport.Hub.
func (h hub) Link(ctx context.Context, agent string) (transport.Link, error) {
	return h.trap.link(h.Hub.Link(ctx, agent))
}

type dialer struct {
	transport.Dialer
	trap *Trap
}

// Dial implements transport.Dialer.
func (d dialer) Dial(ctx context.Context) (transport.Link, error) {
	return d.trap.link(d.Dialer.Dial(ctx))
}

func (t *Trap) link(l transport.Link, err error) (transport.Link, error) {
	if err != nil {
		return nil, err
	}
	return link{l, t}, nil
}

type link struct {
	transport.Link
	trap *Trap
}

// Send implements transport.Link.
func (l link) Send(ctx context.Context, m transport.Message) error {
	before, after := BeforeSend, AfterSend
	switch {
	case strings.HasPrefix(m.Key, "$"):
		before, after = BeforeDeclare, AfterDeclare
	case m.Tombstone():
		before, after = BeforeErase, AfterErase
	}
	return l.trap.around(before, after, func() error { return l.Link.Send(ctx, m) })
}

// Receive implements transport.Link.
func (l link) Receive(ctx context.Context) (transport.Delivery, error) {
	d, err := l.Link.Receive(ctx)
	if err != nil || d.Event != transport.Value {
		return d, err
	}
	l.trap.reach(Receive)
	ack := d.Ack
	d.Ack = func() {
		l.trap.reach(BeforeAck)
		ack()
		l.trap.reach(AfterAck)
	}
	return d, nil
}
