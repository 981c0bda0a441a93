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

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
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

func (r *Redis) apply(ctx context.Context, put map[string][]byte, drop []string, lifetime time.Duration) (err error) {
	conn, err := r.dial(ctx) // the client would, too, but tell a log of its own when that fails
	if err != nil {
		return err
	}
	defer conn.Close() // if the client has not taken it
	client := r.client(conn)
	defer func() { err = errors.Join(err, client.Close()) }()
	pack := r.form.packer()
	_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for key, value := range put {
			p.Set(ctx, key+r.form.ending, pack(value), lifetime)
		}
		for _, key := range drop {
			p.Del(ctx, key+r.form.ending)
		}
		return nil
	})
	return err
}

func (r *Redis) dial(ctx context.Context) (net.Conn, error) {
	if r.cfg.TLS != nil {
		return (&tls.Dialer{Config: r.cfg.TLS}).DialContext(ctx, "tcp", r.cfg.Address)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", r.cfg.Address)
}

// client returns a client that begins with conn; it connects again to be refused by its
// password.
func (r *Redis) client(conn net.Conn) *redis.Client {
	first := make(chan net.Conn, 1)
	first <- conn
	return redis.NewClient(&redis.Options{
		Addr: r.cfg.Address,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			select {
			case conn := <-first:
				return conn, nil
			default:
				return r.dial(ctx)
			}
		},
		DB:                         r.cfg.DB,
		CredentialsProviderContext: r.cfg.Credentials,
		ContextTimeoutEnabled:      true,
		MaxRetries:                 -1, // a Writer comes again
		PoolSize:                   1,
		DisableIdentity:            true,
		MaintNotificationsConfig:   &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
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
