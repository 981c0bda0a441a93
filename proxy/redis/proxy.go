package redis

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/proxy"
)

// Service is the name of the service of an agent's process that a Spoke is.
const Service = "redis"

// maxValue is the largest value, and the largest command, that is passed on, in bytes.
const maxValue = 64 << 20

// Config is what a Proxy is made of. All fields but TLS, Credentials, Keep and Timeout are
// needed.
type Config struct {
	Listener net.Listener // where Argo CD connects to; it is closed when Run returns
	TLS      *tls.Config  // nil is in clear
	// Credentials returns the user and the password that Argo CD must give, and is asked for
	// each connection, so that they may change. An empty password lets everybody in, as nil
	// does; an empty user is Redis' default one.
	Credentials func(context.Context) (user, password string, err error)
	Hub         Server // the hub's own Redis
	Owner       Owner
	Open        proxy.Opener
	// Keep is how many bytes are kept of what agents have told last, which is shown while they
	// do not answer; 0 is 64 MiB.
	Keep int
	// Timeout is how long an agent may take to answer; 0 is a second.
	Timeout time.Duration
	Log     *zap.Logger
}

// A Proxy is a Redis to the hub's Argo CD.
type Proxy struct {
	cfg    Config
	spokes *spokes
}

// New returns a Proxy, which does nothing until Run is called.
func New(c Config) (*Proxy, error) {
	switch {
	case c.Listener == nil, c.Owner == nil, c.Open == nil, c.Log == nil:
		return nil, errors.New("redis: listener, owner, opener and log are needed")
	case c.Hub.Address == "":
		return nil, errors.New("redis: no address of the hub's Redis")
	case c.Keep < 0, c.Timeout < 0:
		return nil, fmt.Errorf("redis: to keep %d bytes, to wait %v", c.Keep, c.Timeout)
	}
	if c.Keep == 0 {
		c.Keep = 64 << 20
	}
	if c.Timeout == 0 {
		c.Timeout = time.Second
	}
	return &Proxy{
		cfg: c,
		spokes: &spokes{
			open: c.Open, timeout: c.Timeout, limit: maxValue, kept: newKept(c.Keep), log: c.Log,
			gates: map[string]*gate{}, failing: map[string]failing{}, counts: map[Outcome]uint64{},
		},
	}, nil
}

// Run serves clients until ctx is done, and returns its cause, or until none can be accepted.
// An agent or a Redis that is away is no failure. It is called once.
func (p *Proxy) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer stop()
	heard := newChannels(p.cfg.Open, func(run func(context.Context)) func() {
		ctx, stop := context.WithCancel(ctx)
		serving.Go(func() { run(ctx) })
		return stop
	}, p.cfg.Log)
	end := context.AfterFunc(ctx, func() { _ = p.cfg.Listener.Close() })
	defer end()
	defer p.cfg.Listener.Close() // nobody is to wait there
	for {
		c, err := p.cfg.Listener.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = c.Close() // nothing was said on it
			}
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("redis: serve Argo CD: %w", err)
		}
		serving.Go(func() { p.serve(ctx, c, heard) })
	}
}

// serve serves one client.
func (p *Proxy) serve(ctx context.Context, c net.Conn, heard *channels) {
	if p.cfg.TLS != nil {
		secured := tls.Server(c, p.cfg.TLS)
		handshake, stop := context.WithTimeout(ctx, connecting)
		err := secured.HandshakeContext(handshake)
		stop()
		if err != nil {
			p.cfg.Log.Info("a client of the Redis proxy is not let in", zap.Stringer("from", c.RemoteAddr()), zap.Error(err))
			_ = c.Close() // nothing was said on it
			return
		}
		c = secured
	}
	d := reception{Proxy: p, channels: heard, log: p.cfg.Log.With(zap.Stringer("client", c.RemoteAddr()))}
	if p.cfg.Credentials != nil {
		var err error
		if d.user, d.password, err = p.cfg.Credentials(ctx); err != nil {
			d.log.Error("a client of the Redis proxy is not let in: it is not known by which password", zap.Error(err))
			_ = c.Close() // nothing was said on it
			return
		}
	}
	newSession(c, d, behind{server: p.cfg.Hub, limit: maxValue}, d.log).run(ctx)
}

// A reception is the desk of one client of a Proxy.
type reception struct {
	*Proxy
	channels       *channels
	user, password string
	log            *zap.Logger
}

func (r reception) open() bool { return r.password == "" }

func (r reception) admits(user, password string) bool {
	own := r.user
	if own == "" {
		own = "default"
	}
	if user == "" {
		user = "default"
	}
	return r.open() || subtle.ConstantTimeCompare([]byte(own), []byte(user))&subtle.ConstantTimeCompare([]byte(r.password), []byte(password)) == 1
}

// unserved are commands that the proxy has no answer to: they would turn the connection into
// something else.
var unserved = map[string]bool{
	"MONITOR": true, "SYNC": true, "PSYNC": true, "REPLCONF": true, "RESET": true, "SSUBSCRIBE": true, "SUNSUBSCRIBE": true,
}

// unservedOfClient are those of CLIENT.
var unservedOfClient = map[string]bool{"REPLY": true, "TRACKING": true, "CACHING": true, "MAINT_NOTIFICATIONS": true}

// listing are commands of which all arguments are keys.
var listing = map[string]bool{"DEL": true, "UNLINK": true, "EXISTS": true, "TOUCH": true, "MGET": true, "RENAME": true, "RENAMENX": true, "WATCH": true}

// answer implements desk: what is an agent's is answered by it, and everything else by the
// hub's Redis. So is all that is in a transaction.
func (r reception) answer(ctx context.Context, s *session, name string, args [][]byte) (*answer, []byte) {
	if unserved[name] || name == "CLIENT" && len(args) > 1 && unservedOfClient[strings.ToUpper(string(args[1]))] {
		return known(failure("ERR the Redis proxy does not serve '" + strings.ToLower(name) + "' as it was asked")), nil
	}
	if s.multi || len(args) < 2 {
		return nil, nil
	}
	keys := args[1:2]
	if listing[name] {
		keys = args[1:]
	}
	for _, k := range keys {
		agent, there, ok := r.cfg.Owner.route(string(k))
		if !ok {
			continue
		}
		if _, reads := readings[name]; !reads || len(args) != 2 {
			return known(failure(fmt.Sprintf("NOPERM %s is in the Redis of agent %s, where the hub reads by GET, EXISTS, TTL and PTTL of one key, and writes nothing", k[:min(len(k), 200)], agent))), nil
		}
		a, v := newAnswer(), s.version
		s.beside.Go(func() { a.give(r.spokes.read(ctx, v, name, agent, there.String())) })
		return a, nil
	}
	return nil, nil
}

// listen implements desk.
func (r reception) listen(s *session, channel string) (<-chan struct{}, func()) {
	agent, there, ok := r.cfg.Owner.route(channel)
	if !ok || !there.channel() {
		return nil, nil
	}
	return r.channels.open(place{agent, there.String()}, func() { s.due.note(channel) })
}

// Stats say how it went with what was read of agents.
type Stats struct {
	Read map[Outcome]uint64 // since the Proxy began
	// Away are the agents that did not answer when they were asked last, with how old the oldest
	// is of what was shown in their place; 0 is nothing.
	Away map[string]time.Duration
}

// forgotten is after what time nobody asks any more whether an agent has answered again.
const forgotten = time.Hour

// Stats returns how it went until now.
func (p *Proxy) Stats() Stats {
	s := p.spokes
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(s.failing, func(_ string, f failing) bool { return now.Sub(f.last) > forgotten })
	out := Stats{Read: maps.Clone(s.counts), Away: map[string]time.Duration{}}
	for agent, f := range s.failing {
		out.Away[agent] = 0
		if !f.told.IsZero() {
			out.Away[agent] = now.Sub(f.told)
		}
	}
	return out
}
