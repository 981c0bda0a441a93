package natsstore

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// A connection is one to a server, and the bucket there.
type connection struct {
	*nats.Conn
	bucket *bucket
	closed chan struct{} // once nothing of it is left
	again  chan struct{} // holds a token once it is another
}

// connect connects. If it is to insist it goes on trying by itself, now and whenever the
// connection is lost.
func connect(cfg Config, insist bool) (*connection, error) {
	c := &connection{closed: make(chan struct{}), again: make(chan struct{}, 1)}
	said := "" // by the server, at every attempt; handlers are called one after the other
	again := func(*nats.Conn) {
		said = ""
		signal(c.again)
	}
	o := []nats.Option{
		nats.Name("argocd-agent " + cfg.Owner),
		nats.Timeout(5 * time.Second),
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.ReconnectBufSize(-1), // what cannot be written now must not be later
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
		nats.ConnectHandler(again),
		nats.ReconnectHandler(again),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if err.Error() != said {
				said = err.Error()
				cfg.Log.Warn("the NATS server complains", zap.Error(err))
			}
		}),
	}
	if insist {
		o = append(o, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(), nats.ReconnectWait(500*time.Millisecond))
	} else {
		o = append(o, nats.NoReconnect())
	}
	if cfg.TLS != nil {
		o = append(o, nats.Secure(cfg.TLS))
	}
	if cfg.Credentials != "" {
		o = append(o, nats.UserCredentials(cfg.Credentials))
	}
	var err error
	if c.Conn, err = nats.Connect(cfg.URL, o...); err != nil {
		return nil, fmt.Errorf("natsstore: connect: %w", err)
	}
	js, err := jetstream.New(c.Conn)
	if err != nil {
		c.close()
		return nil, fmt.Errorf("natsstore: connect: %w", err)
	}
	c.bucket = &bucket{js: js, name: cfg.Bucket, owner: cfg.Owner, timeout: cfg.Timeout, ages: &atomic.Bool{}}
	return c, nil
}

// close closes the connection, and returns once nothing of it is left.
func (c *connection) close() {
	c.Close()
	<-c.closed
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
