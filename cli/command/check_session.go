package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/argocd-fabric/argocd-agent/cli/check"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// readCredentials reads credentials once.
func readCredentials(ctx context.Context, read func(context.Context) (identity.Bundle, error)) (*identity.Credentials, error) {
	b, err := read(ctx)
	if err != nil {
		return nil, err
	}
	return identity.NewCredentials(b, time.Now())
}

// shake connects to the principal by TLS as the transport does.
func (a *agentCheck) shake(ctx context.Context) (*tls.Conn, error) {
	host, _, err := net.SplitHostPort(a.way.address)
	if err != nil {
		return nil, err
	}
	a.way.envelope = a.own.EnvelopeClient
	return a.way.handshake(ctx, a.own.Client(host))
}

// A meeting is a session with the principal that hears, and says nothing.
type meeting struct {
	link transport.Link
	peer transport.Presence
	rows map[string]bool // keys that have a value
	sum  *engine.Manifest
}

// meet opens a session, and waits until the principal answers or refuses it.
func meet(ctx context.Context, open newDialer, own *identity.Credentials, heard *witness) (*meeting, error) {
	dialer, err := open(own)
	if err != nil {
		return nil, err
	}
	ctx, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	heard.tell(func(line string) { refuse(errors.New(line)) })
	defer heard.tell(nil)
	link, err := dialer.Dial(ctx)
	switch {
	case ctx.Err() != nil && err != nil: // it was refused meanwhile
		return nil, heard.explain(err)
	case err != nil:
		return nil, err
	}
	m := &meeting{link: link, rows: map[string]bool{}}
	for m.peer.Process == "" {
		if err := m.hear(ctx); err != nil {
			m.close()
			return nil, heard.explain(err)
		}
	}
	return m, nil
}

func (m *meeting) close() { _ = m.link.Close() } // what it kept goes with it

// hear takes in what is next.
func (m *meeting) hear(ctx context.Context) error {
	d, err := m.link.Receive(ctx)
	if err != nil {
		return err
	}
	if d.Event == transport.Up {
		m.peer = d.Presence
	}
	if d.Event != transport.Value {
		return nil
	}
	d.Ack()
	key := d.Message.Key
	switch {
	case key == wire.Name(engine.ManifestKey):
		told, err := wire.Decode(d.Message, nil)
		if err != nil {
			return err
		}
		if sum, ok := told.Body.(engine.Manifest); ok {
			m.sum = &sum
		}
	case strings.HasPrefix(key, "$"): // no row
	case d.Message.Tombstone():
		delete(m.rows, key)
	default:
		m.rows[key] = true
	}
	return nil
}

func (m *meeting) version() (string, error) { return common(m.peer, wire.Spoken()) }

// sync waits until as many rows have come as the principal says that there are.
func (m *meeting) sync(ctx context.Context) (string, error) {
	for m.sum == nil || len(m.rows) != m.sum.Count {
		if err := m.hear(ctx); err != nil {
			seen := fmt.Errorf("%s came, and the principal has not said how many there are: %w", shell.Count(len(m.rows), "object"), err)
			if m.sum != nil {
				seen = fmt.Errorf("%d of %s came: %w", len(m.rows), shell.Count(m.sum.Count, "object"), err)
			}
			return "", &check.Failure{Err: seen, Advice: "see the principal's log, and how the agent stands there: argocd-agentctl status"}
		}
	}
	return "what the principal has for this agent has come: " + shell.Count(m.sum.Count, "object"), nil
}

// A witness is a log that keeps what is said last of what goes wrong, and tells at once of an
// error.
type witness struct {
	mu     sync.Mutex
	last   string
	advice string
	told   func(line string)
}

var _ zapcore.Core = (*witness)(nil)

func (w *witness) tell(f func(line string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = f
}

// explain returns what the log has said in place of an error, if it has said anything.
func (w *witness) explain(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == "" {
		return &check.Failure{Err: fmt.Errorf("the principal does not answer: %w", err), Advice: "see its log: with NATS only that says why it refuses an agent"}
	}
	if w.advice == "" {
		return &check.Failure{Err: errors.New(w.last), Advice: "see the principal's log"}
	}
	return &check.Failure{Err: errors.New(w.last), Advice: w.advice}
}

// Enabled implements zapcore.Core.
func (w *witness) Enabled(l zapcore.Level) bool { return l >= zapcore.WarnLevel }

// With implements zapcore.Core.
func (w *witness) With([]zapcore.Field) zapcore.Core { return w }

// Check implements zapcore.Core.
func (w *witness) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if w.Enabled(e.Level) {
		return to.AddCore(e, w)
	}
	return to
}

// Write implements zapcore.Core.
func (w *witness) Write(e zapcore.Entry, fields []zapcore.Field) error {
	all := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(all)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = e.Message
	if cause, ok := all.Fields["error"]; ok {
		w.last = fmt.Sprint(e.Message, ": ", cause)
	}
	w.advice, _ = all.Fields["advice"].(string)
	if w.told != nil && e.Level >= zapcore.ErrorLevel {
		w.told(w.last)
	}
	return nil
}

// Sync implements zapcore.Core.
func (w *witness) Sync() error { return nil }
