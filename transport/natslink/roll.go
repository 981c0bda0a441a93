package natslink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// rollStream is where a principal keeps who is connected to servers elsewhere, and rollSubject
// what is before an agent's name there.
const (
	rollStream  = "AGENT_CONNECTIONS"
	rollSubject = "fabric-connections."
)

// A roll says, to the next process of the principal, what agents' connections there are and by
// which certificates they were let in: connections stay when the principal ends, and have to be
// cut when a certificate expires or is blocked all the same. A password is not kept.
//
// What it lacks does no harm: a connection that is not known is closed, and the agent comes again.
type roll struct{ js jetstream.JetStream }

// An entry is one connection.
type entry struct {
	endpoint
	Kind  int      `json:"kind"`
	From  string   `json:"from"`
	Chain [][]byte `json:"chain"` // the chain that the server has verified
	Shown int      `json:"shown"` // how many of it were shown
}

func openRoll(ctx context.Context, v *vault, js jetstream.JetStream) (*roll, error) {
	err := untilAnswered(ctx, func(ctx context.Context) error {
		_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: rollStream, Subjects: []string{rollSubject + "*"}, MaxMsgsPerSubject: 1, MaxMsgs: 1 << 17, MaxBytes: MinQuota,
			Storage: jetstream.FileStorage, Replicas: v.replicas, AllowDirect: true, Discard: jetstream.DiscardOld,
		})
		return err
	})
	if err != nil {
		return nil, noRoom(fmt.Errorf("natslink: open stream %s: %w", rollStream, err))
	}
	return &roll{js}, nil
}

func entryOf(e endpoint, c *caller) entry {
	n := entry{endpoint: e, Kind: c.kind, From: c.from.String()}
	if !c.loginOnly() {
		n.Shown = len(c.tls.PeerCertificates)
		for _, cert := range c.tls.VerifiedChains[0] {
			n.Chain = append(n.Chain, cert.Raw)
		}
	}
	return n
}

// caller returns what was decided on.
func (e entry) caller() (caller, error) {
	from := host(strings.TrimSuffix(e.From, ":0"))
	c := caller{kind: e.Kind, from: from, where: func() net.Addr { return from }}
	if len(e.Chain) == 0 || e.Shown < 1 || e.Shown > len(e.Chain) {
		return c, errors.New("it has shown no certificate")
	}
	var chain []*x509.Certificate
	for _, raw := range e.Chain {
		cert, err := x509.ParseCertificate(raw)
		if err != nil {
			return c, err
		}
		chain = append(chain, cert)
	}
	c.tls = &tls.ConnectionState{HandshakeComplete: true, VerifiedChains: [][]*x509.Certificate{chain}, PeerCertificates: chain[:e.Shown]}
	return c, nil
}

// note notes the connection of an agent, in place of the one before. It does not wait: see roll.
func (r *roll) note(agent string, e entry) {
	if data, err := json.Marshal(e); err == nil {
		_ = r.js.Conn().Publish(rollSubject+agent, data)
	}
}

// forget drops what is known of an agent.
func (r *roll) forget(agent string) { _ = r.js.Conn().Publish(rollSubject+agent, nil) } // as in note

// entries returns the connections, by agent.
func (r *roll) entries(ctx context.Context) (map[string]entry, error) {
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	c, err := r.js.OrderedConsumer(ctx, rollStream, jetstream.OrderedConsumerConfig{}) // one pass, however many agents there are
	if err != nil {
		return nil, err
	}
	info, err := c.Info(ctx)
	if err != nil {
		return nil, err
	}
	next, err := c.Messages()
	if err != nil {
		return nil, err
	}
	defer next.Stop()
	all := map[string]entry{}
	for left := info.NumPending; left > 0; {
		m, err := next.Next(jetstream.NextContext(ctx))
		if err != nil {
			return all, err
		}
		about, err := m.Metadata()
		if err != nil {
			return all, err
		}
		left = about.NumPending // one that is replaced meanwhile comes later, so the last always comes
		agent := strings.TrimPrefix(m.Subject(), rollSubject)
		var e entry
		if len(m.Data()) == 0 || json.Unmarshal(m.Data(), &e) != nil {
			delete(all, agent)
			continue
		}
		all[agent] = e
	}
	return all, nil
}
