package natslink

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// A trunk is the connection of an agent without a server of its own to the principal's: that of
// a client of NATS, which opens it again by itself whenever it is gone.
//
// The client holds its lock while it connects, so whether it is connected is found out beneath
// it: see cable.
type trunk struct {
	*nats.Conn
	dial  func(context.Context) (net.Conn, error) // TLS and all
	beat  time.Duration
	log   *zap.Logger
	begun chan struct{} // closed once it may connect

	ctx    context.Context // until it is hung up
	cancel context.CancelFunc

	mu     sync.Mutex
	cables uint64
	now    *cable // the one that was opened last; nil if none was
	reason string // why it could not connect, as the log was told
	told   time.Time
}

// openTrunk returns a trunk that connects once it is begun. Options say who comes.
func openTrunk(dial func(context.Context) (net.Conn, error), beat time.Duration, log *zap.Logger, options ...nats.Option) (*trunk, error) {
	t := &trunk{dial: dial, beat: beat, log: log, begun: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	nc, err := nats.Connect("nats://principal", append(options, // which goes by the dialer
		nats.SetCustomDialer(dialer{t}),
		nats.SkipHostLookup(),
		nats.IgnoreDiscoveredServers(),
		nats.RetryOnFailedConnect(true),
		nats.IgnoreAuthErrorAbort(), // the agent may be registered yet
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(t.pause),
		nats.ReconnectBufSize(-1), // what cannot be said now is said anew
		nats.Timeout(tlsTimeout+infoTimeout),
		nats.PingInterval(beat),
		nats.MaxPingsOutstanding(2),
		nats.FlusherTimeout(2*beat),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { t.tell(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			t.log.Warn("NATS connection to the principal", zap.Error(err))
		}),
	)...)
	if err != nil {
		t.cancel()
		return nil, fmt.Errorf("natslink: connection to the principal: %w", err)
	}
	t.Conn = nc
	return t, nil
}

// begin has it connect, once everything is subscribed to.
func (t *trunk) begin() { close(t.begun) }

// errNotBegun has the client return, and connect later.
var errNotBegun = errors.New("not yet")

// A dialer dials for the client.
type dialer struct{ *trunk }

// SkipTLSHandshake says that Dial has made it.
func (d dialer) SkipTLSHandshake() bool { return true }

// Dial implements nats.CustomDialer.
func (d dialer) Dial(string, string) (net.Conn, error) {
	select {
	case <-d.begun:
	default:
		return nil, errNotBegun
	}
	conn, err := d.dial(d.ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cables++
	d.now = &cable{Conn: conn, number: d.cables}
	return d.now, nil
}

// pause returns how long the client is to wait before it connects. It is a random time, so that
// the agents of a principal that comes back do not come all at once.
func (t *trunk) pause(attempt int) time.Duration {
	select {
	case <-t.begun:
	case <-t.ctx.Done():
		return 0
	}
	last := t.cable()
	if last == nil && attempt == 1 {
		return 0
	}
	if last != nil {
		_ = last.Close() // the client forgets one that has not carried anything
	}
	if err := t.LastError(); err != nil {
		t.tell(err)
	}
	return rand.N(min(t.beat, t.beat/16<<min(attempt, 10)))
}

// tell tells the log why the principal cannot be reached: each reason once in a while.
func (t *trunk) tell(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, reason := time.Now(), reasonOf(err)
	if errors.Is(err, errNotBegun) || t.ctx.Err() != nil || reason == t.reason && now.Sub(t.told) < refusalInterval {
		return
	}
	t.reason, t.told = reason, now
	t.log.Warn("cannot connect to the principal", zap.Error(err))
}

func (t *trunk) cable() *cable {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now
}

// session returns the number of the connection that there is, 0 if there is none.
func (t *trunk) session() uint64 {
	if c := t.cable(); c != nil && c.carries.Load() && !c.ended.Load() {
		return c.number
	}
	return 0
}

// sever closes a connection. Another is opened then.
func (t *trunk) sever(session uint64) {
	if c := t.cable(); c != nil && c.number == session {
		_ = c.Close() // the client sees that it has ended
	}
}

// hangUp ends what has not carried anything yet, so that nobody waits for it, and has no more be
// opened.
func (t *trunk) hangUp() {
	t.cancel()
	if c := t.cable(); c != nil && !c.carries.Load() {
		_ = c.Close() // nothing is lost
	}
}

// A cable is one connection of a trunk.
type cable struct {
	net.Conn
	number  uint64
	carries atomic.Bool // the server has let the agent in
	ended   atomic.Bool
}

// Read implements net.Conn. The first PONG says that the server has let the agent in.
func (c *cable) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.carries.Load() && bytes.Contains(b[:n], []byte("PONG")) {
		c.carries.Store(true)
	}
	return n, err
}

// Close implements net.Conn.
func (c *cable) Close() error {
	c.ended.Store(true)
	return c.Conn.Close()
}

// overTLS has what is dialled speak TLS, within some time for both.
func overTLS(dial func(context.Context) (net.Conn, error), c *tls.Config, within time.Duration) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		conn, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(conn, c)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close() // it was of no use
			return nil, err
		}
		return secure, nil
	}
}
