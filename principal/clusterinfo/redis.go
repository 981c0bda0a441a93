package clusterinfo

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gomodule/redigo/redis"
)

// patience is how long Redis may take for all that is asked of it at once.
const patience = 10 * time.Second

// RedisConfig says how to reach Argo CD's Redis. Address is needed.
type RedisConfig struct {
	Address string // host and port
	DB      int
	TLS     *tls.Config // nil is a connection in clear
	// Credentials returns user and password, and is asked for each connection, so that a
	// password may change; nil is none. An empty user is Redis' default one.
	Credentials func(context.Context) (user, password string, err error)
	// Compression is how Argo CD compresses its entries: "gzip", as empty, or "none".
	Compression string
}

// A Redis is the Cache that Argo CD reads. It connects anew each time, so that nothing
// is left of what has failed before.
type Redis struct {
	cfg  RedisConfig
	form form
}

// A form is how values are compressed.
type form struct {
	ending string                     // of keys
	packer func() func([]byte) []byte // of values; what one packer returns is for one goroutine
}

func forms() map[string]form {
	return map[string]form{
		"":     {".gz", zipper},
		"gzip": {".gz", zipper},
		"none": {"", func() func([]byte) []byte { return func(value []byte) []byte { return value } }},
	}
}

// NewRedis returns a Redis. It does not reach out.
func NewRedis(c RedisConfig) (*Redis, error) {
	if c.Address == "" {
		return nil, errors.New("clusterinfo: no address of Redis")
	}
	form, ok := forms()[c.Compression]
	if !ok {
		return nil, fmt.Errorf("clusterinfo: compression %q is neither gzip nor none", c.Compression)
	}
	return &Redis{cfg: c, form: form}, nil
}

// Apply implements [Cache].
func (r *Redis) Apply(ctx context.Context, put map[string][]byte, drop []string, lifetime time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := r.apply(ctx, put, drop, lifetime); err != nil {
		return fmt.Errorf("clusterinfo: write %d and remove %d entries in Redis at %s: %w", len(put), len(drop), r.cfg.Address, err)
	}
	return nil
}

// apply says all that it has to say, and then reads the answers. The connection ends with ctx, whatever
// is waited for.
func (r *Redis) apply(ctx context.Context, put map[string][]byte, drop []string, lifetime time.Duration) error {
	wire, err := r.dial(ctx)
	if err != nil {
		return err
	}
	defer wire.Close()
	stop := context.AfterFunc(ctx, func() { wire.Close() })
	defer stop()
	conn := redis.NewConn(wire, 0, 0)
	err = r.greet(ctx, conn)
	if err == nil {
		err = r.tell(conn, put, drop, lifetime)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // which is why the connection has failed
	}
	return err
}

// greet says who we are, and which of the databases we mean.
func (r *Redis) greet(ctx context.Context, conn redis.Conn) error {
	var user, password string
	if r.cfg.Credentials != nil {
		var err error
		if user, password, err = r.cfg.Credentials(ctx); err != nil {
			return err
		}
	}
	var err error
	switch {
	case user != "":
		_, err = conn.Do("AUTH", user, password)
	case password != "":
		_, err = conn.Do("AUTH", password)
	}
	if err == nil && r.cfg.DB != 0 {
		_, err = conn.Do("SELECT", r.cfg.DB)
	}
	return err
}

// tell writes and removes entries, as many as there are at once.
func (r *Redis) tell(conn redis.Conn, put map[string][]byte, drop []string, lifetime time.Duration) error {
	pack := r.form.packer()
	for key, value := range put {
		if err := conn.Send("SET", key+r.form.ending, pack(value), "PX", lifetime.Milliseconds()); err != nil {
			return err
		}
	}
	for _, key := range drop {
		if err := conn.Send("DEL", key+r.form.ending); err != nil {
			return err
		}
	}
	answers, err := redis.Values(conn.Do("")) // sends them, and reads the answers to all
	for _, answer := range answers {
		if refusal, is := answer.(redis.Error); is {
			return refusal
		}
	}
	if errors.Is(err, redis.ErrNil) { // there was nothing to say
		return nil
	}
	return err
}

func (r *Redis) dial(ctx context.Context) (net.Conn, error) {
	if r.cfg.TLS != nil {
		return (&tls.Dialer{Config: r.cfg.TLS}).DialContext(ctx, "tcp", r.cfg.Address)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", r.cfg.Address)
}

// zipper compresses as Argo CD does. It keeps its writer, which is large.
func zipper() func([]byte) []byte {
	w := gzip.NewWriter(nil)
	return func(value []byte) []byte {
		var b bytes.Buffer
		w.Reset(&b)
		_, err := w.Write(value)
		if err := errors.Join(err, w.Close()); err != nil {
			panic("clusterinfo: compress: " + err.Error()) // a Buffer takes everything
		}
		return b.Bytes()
	}
}
