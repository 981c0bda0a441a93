package stack

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// A Cluster is one API server and what runs against it.
type Cluster struct {
	stack  *Stack
	cfg    ClusterConfig
	dir    string
	etcd   *etcd
	url    string
	ca     *authority
	token  string // of the administrator
	rest   *rest.Config
	http   *http.Client // the one under every client below
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
	ports  map[string]int // of the parts that listen

	mu    sync.Mutex
	parts map[string]*Process
}

// newCluster prepares the files and the clients of a cluster.
func (s *Stack) newCluster(cfg ClusterConfig) (*Cluster, error) {
	if cfg.Name == "" || s.clusters[cfg.Name] != nil {
		return nil, fmt.Errorf("stack: cluster %q: the name is empty or taken", cfg.Name)
	}
	if cfg.ArgoCD {
		cfg.Controllers, cfg.Node = true, true
	}
	cfg.CRDs = cfg.CRDs || cfg.ArgoCD || cfg.Server || cfg.ApplicationSets
	c := &Cluster{
		stack: s,
		cfg:   cfg,
		dir:   filepath.Join(s.dir, cfg.Name),
		etcd:  s.etcd,
		ports: map[string]int{},
		parts: map[string]*Process{},
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, fmt.Errorf("stack: cluster %s: %w", cfg.Name, err)
	}
	if cfg.Etcd {
		own, err := s.newEtcd(cfg.Name+"-etcd", c.dir)
		if err != nil {
			return nil, err
		}
		c.etcd = own
	}
	if err := c.reserve(); err != nil {
		return nil, err
	}
	if err := c.writeCredentials(); err != nil {
		return nil, err
	}
	if err := c.connect(); err != nil {
		return nil, err
	}
	return c, nil
}

// reserve gives every part a port, run or not: then the address of one part
// can be handed to another before either has started.
func (c *Cluster) reserve() error {
	for _, name := range []string{
		APIServer, Kwok, Redis, redisProxy, sharedRedis, sharedRepoServer, RepoServer, metrics(RepoServer), metrics(AppController), ArgoCDServer, metrics(ArgoCDServer),
		metrics(AppSetController), probes(AppSetController), webhooks(AppSetController),
	} {
		port, err := c.stack.Port()
		if err != nil {
			return err
		}
		c.ports[name] = port
	}
	c.url = "https://" + c.address(APIServer)
	return nil
}

// metrics names the second port of a part.
func metrics(part string) string { return part + "-metrics" }

// probes and webhooks name further ports of a part.
func probes(part string) string   { return part + "-probes" }
func webhooks(part string) string { return part + "-webhooks" }

// address returns where a part listens.
func (c *Cluster) address(part string) string { return loopback(c.ports[part]) }

func (c *Cluster) file(name string) string { return filepath.Join(c.dir, name) }

// start starts the API server and then everything else at once.
func (c *Cluster) start(ctx context.Context) error {
	if err := c.startAPIServer(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	if c.cfg.Controllers {
		group.Go(func() error { return c.startControllers(ctx) })
	}
	if c.cfg.Node {
		group.Go(func() error { return c.startNode(ctx) })
	}
	if c.cfg.CRDs {
		group.Go(func() error { return c.startArgoCD(ctx) })
	}
	return group.Wait()
}

// part makes the process of a part and notes it.
func (c *Cluster) part(r ring, name string, cfg ProcessConfig) *Process {
	cfg.Name = c.cfg.Name + "-" + name
	cfg.Path = c.stack.binaries.Path(name)
	p := c.stack.process(r, cfg)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parts[name] = p
	return p
}

// Process returns the process of a part, such as [AppController], or nil where
// the cluster runs without it.
func (c *Cluster) Process(part string) *Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.parts[part]
}

// Name returns the name of the cluster.
func (c *Cluster) Name() string { return c.cfg.Name }

// URL returns the address of the API server.
func (c *Cluster) URL() string { return c.url }

// CA returns the certificate of the cluster's authority, as PEM.
func (c *Cluster) CA() []byte { return c.ca.pem() }

// Token returns the bearer token of the cluster's administrator.
func (c *Cluster) Token() string { return c.token }

// ArgoCDServerURL returns where argocd-server serves its API, in clear text.
func (c *Cluster) ArgoCDServerURL() string { return "http://" + c.address(ArgoCDServer) }

// RedisAddress returns host and port of the cluster's Redis.
func (c *Cluster) RedisAddress() string { return c.address(Redis) }

// RedisProxyAddress returns where argocd-server expects Redis if it is not to use that of
// RedisAddress.
func (c *Cluster) RedisProxyAddress() string { return c.address(redisProxy) }

// RepoServerAddress returns host and port of the cluster's repo-server.
func (c *Cluster) RepoServerAddress() string { return c.address(RepoServer) }

// SharedRedisAddress and SharedRepoServerAddress return where an application-controller
// without servers of its own expects them.
func (c *Cluster) SharedRedisAddress() string { return c.address(sharedRedis) }

// SharedRepoServerAddress is described at [Cluster.SharedRedisAddress].
func (c *Cluster) SharedRepoServerAddress() string { return c.address(sharedRepoServer) }

// PodLog returns the path of the log that all pods show where the cluster has a node. Each
// of its lines begins with a time, a stream and F.
func (c *Cluster) PodLog() string { return c.file("pod.log") }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.file("kubeconfig") }

// RESTConfig returns a client configuration for the administrator, without
// limits on the rate of requests.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.rest) }

// Dynamic returns a client for the administrator.
func (c *Cluster) Dynamic() dynamic.Interface { return c.client }
