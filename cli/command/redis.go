package command

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/agent"
	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/proxy"
	"github.com/argocd-fabric/argocd-agent/proxy/redis"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// redisProxyFlags are those of the Redis that the control plane's Argo CD uses in place of its
// own, beside those of its own.
func redisProxyFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.String("redis-proxy-listen", "", "", "the `address`, such as :6379, of a Redis for the control plane's Argo CD to use in place of its own, which is behind it: the resources of agents' Applications are read from the agents' Redis. Argo CD gives the user and password of its own; empty is off"),
		f.String("redis-proxy-server-tls-cert", "REDIS_PROXY_SERVER_TLS_CERT_PATH", "", "a `file` with the certificate of that Redis, read for each connection; empty is in clear"),
		f.String("redis-proxy-server-tls-key", "REDIS_PROXY_SERVER_TLS_KEY_PATH", "", "a `file` with its key"),
	}
}

// spokeRedisFlags are those of an agent's own Redis.
func spokeRedisFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.String("redis-addr", "", "", "the `host:port` of this cluster's Argo CD's Redis, in which the control plane looks up the resources of the agent's Applications, and nothing else; empty is that it cannot"),
		f.String("redis-username", "", "", "the `user` of Redis; empty is its default one"),
		f.String("redis-password", "", "", "the `password` of Redis, better given by its environment variable"),
		f.String("redis-creds-dir-path", "", "", "a `folder` with the files auth (the password) and, if there is one, username, in place of --redis-password; read for each connection"),
		f.Bool("redis-tls-enabled", "", "reach Redis by TLS"),
		f.String("redis-tls-ca-path", "", "", "a `file` with the CA of its certificate; empty is the system's"),
	}
}

// hubRedis is how the control plane's own Redis is reached, at an address that a flag says; ""
// if it says none.
func hubRedis(c *cli.Context, flag string) (redis.Server, error) {
	address, err := shell.Address(c, flag)
	if err != nil {
		return redis.Server{}, err
	}
	secured, err := redisTLS(c, "redis-ca-path")
	if err != nil {
		return redis.Server{}, err
	}
	return redis.Server{Address: address, TLS: secured, Credentials: redisCredentials(c.String("redis-creds-dir-path"), "", c.String("redis-password"))}, nil
}

// A redisProxy is what flags say of the Redis proxy; the zero one is off.
type redisProxy struct {
	listen string
	hub    redis.Server
	tls    *tls.Config
}

func newRedisProxy(c *cli.Context) (p redisProxy, err error) {
	if p.listen, err = shell.Address(c, "redis-proxy-listen"); err != nil || p.listen == "" {
		return p, err
	}
	if p.hub, err = hubRedis(c, "redis-server-address"); err != nil {
		return p, err
	}
	if p.hub.Address == "" {
		return p, &shell.UsageError{Where: "--redis-proxy-listen", What: "there is no Redis behind it", Advice: "add --redis-server-address, with that of Argo CD's own"}
	}
	cert, key := c.String("redis-proxy-server-tls-cert"), c.String("redis-proxy-server-tls-key")
	if (cert == "") != (key == "") {
		return p, &shell.UsageError{Where: "--redis-proxy-server-tls-cert, --redis-proxy-server-tls-key", What: "only one of them is given", Advice: "give both, or none"}
	}
	if cert == "" {
		return p, nil
	}
	pair := &keptPair{cert: cert, key: key}
	if _, err := pair.get(nil); err != nil {
		return p, &shell.UsageError{Where: "--redis-proxy-server-tls-cert", What: err.Error(), Advice: "name two files as PEM that belong together"}
	}
	p.tls = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.get}
	return p, nil
}

// A keptPair is a certificate in files, which may be replaced: until both have been the one
// before stays in force.
type keptPair struct {
	cert, key string

	mu   sync.Mutex
	last *tls.Certificate
}

func (p *keptPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err == nil {
		p.last = &now
	}
	if p.last == nil {
		return nil, err
	}
	return p.last, nil
}

// open returns the proxy, listening, nil if it is off.
func (p redisProxy) open(ctx context.Context, hub *principal.Principal, namespace string, log *zap.Logger) (*redis.Proxy, error) {
	if p.listen == "" {
		return nil, nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", p.listen)
	if err != nil {
		return nil, fmt.Errorf("command: serve --redis-proxy-listen: %w", err)
	}
	if _, password, err := p.hub.Credentials(ctx); err == nil && password == "" {
		log.Warn("whoever reaches the Redis proxy is let in: give Argo CD's Redis a password, and --redis-password", zap.Stringer("address", l.Addr()))
	}
	return redis.New(redis.Config{
		Listener: l, TLS: p.tls, Credentials: p.hub.Credentials, Hub: p.hub, Open: hub.Open, Log: log.Named("redis-proxy"),
		Owner: func(of, name string) (agent, there string, ok bool) {
			agent, link, ok := hub.Owner(cmp.Or(of, namespace), name)
			return agent, link.Namespace, ok
		},
	})
}

// runRedis is what runs a proxy; nil if it is off.
func runRedis(p *redis.Proxy) func(context.Context) error {
	if p == nil {
		return nil
	}
	return p.Run
}

// spokeRedis returns the service by which the principal reads from the agent's Redis, and what
// it needs to run; none if there is no Redis.
func spokeRedis(c *cli.Context, place agent.Placement, store backend.Store, log *zap.Logger) (proxy.Services, func(context.Context) error, error) {
	address, err := shell.Address(c, "redis-addr")
	if err != nil {
		return nil, nil, err
	}
	secured, err := redisTLS(c, "redis-tls-ca-path")
	if err != nil || address == "" {
		return nil, nil, err
	}
	apps := &roster{place: place, store: store, log: log, there: map[resource.Key]bool{}}
	spoke, err := redis.NewSpoke(redis.SpokeConfig{
		Redis: redis.Server{Address: address, TLS: secured, Credentials: redisCredentials(c.String("redis-creds-dir-path"), c.String("redis-username"), c.String("redis-password"))},
		Has:   apps.has,
		Log:   log.Named("redis"),
	})
	if err != nil {
		return nil, nil, err
	}
	return proxy.Services{redis.Service: spoke.Serve}, apps.Run, nil
}

// A roster knows which Applications the agent has, and tells of.
type roster struct {
	place agent.Placement
	store backend.Store
	log   *zap.Logger

	mu    sync.Mutex
	there map[resource.Key]bool // as they are on the cluster
}

// has reports whether the agent has an Application, whose namespace is as it is on the link.
func (r *roster) has(namespace, name string) bool {
	k, forbidden := r.place.In(resource.Key{Kind: resource.Application, Namespace: namespace, Name: name})
	r.mu.Lock()
	defer r.mu.Unlock()
	return forbidden == "" && r.there[k]
}

// relist is after what time they are listed anew when they cannot be watched.
const relist = time.Second

// Run follows them until ctx is done. What was known stays so while the store cannot be watched.
func (r *roster) Run(ctx context.Context) error {
	for {
		listed := map[resource.Key]bool{}
		err := r.store.Watch(ctx, backend.In(r.place.Namespaces()...), func(e backend.Event) error {
			listed = r.note(e, listed)
			return nil
		})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.log.Info("Applications are listed anew for what may be read from Redis", zap.Error(err))
		select {
		case <-time.After(relist):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// note takes in what a watch shows. listed is what it has shown until it has shown all, nil
// from then on.
func (r *roster) note(e backend.Event, listed map[resource.Key]bool) map[resource.Key]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	into := r.there
	if listed != nil {
		into = listed
	}
	switch {
	case e.Put != nil && e.Put.Key.Kind == resource.Application:
		if _, ours := r.place.Out(*e.Put); ours && !e.Put.Excluded && !backend.Exclude(*e.Put).Excluded {
			into[e.Put.Key] = true
		} else {
			delete(into, e.Put.Key)
		}
	case e.Gone != nil:
		delete(into, e.Gone.Key)
	case e.Synced != nil && listed != nil:
		r.there = listed
		return nil
	}
	return listed
}
