package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// stopTime is how long a program may take to end before it is killed: what a
// pod has, since our own programs are stopped here too.
const stopTime = 30 * time.Second

// A Config says what to start.
type Config struct {
	// Clusters lists the clusters; their names differ.
	Clusters []ClusterConfig
	// ArgoCD is the major version of Argo CD on all of them, "2" or "3"; empty means
	// [DefaultArgoCD].
	ArgoCD string
	// Output is where the progress of a build goes; nil discards it.
	Output io.Writer
}

// A ClusterConfig describes one cluster. Without any of its options it is an
// API server and nothing else.
type ClusterConfig struct {
	// Name is a DNS label, such as "hub".
	Name string
	// CRDs installs the Argo CD resource definitions for Application and
	// AppProject, the namespace argocd and Argo CD's configuration in it.
	CRDs bool
	// ApplicationSets installs the definition of ApplicationSet too, and runs its
	// controller, with Redis and the repo-server. It implies CRDs.
	ApplicationSets bool
	// ApplicationNamespaces are the namespaces beside argocd in which Argo CD takes
	// Applications and ApplicationSets; globs are allowed. The project "default" takes
	// them from anywhere.
	ApplicationNamespaces []string
	// Etcd gives the cluster an etcd of its own, which can go back in time alone: see
	// [Cluster.Snapshot] and [Cluster.Restore].
	Etcd bool
	// Controllers runs the controller manager and the scheduler.
	Controllers bool
	// Node runs kwok and one node, on which pods start, show logs and take exec.
	Node bool
	// ArgoCD runs Redis, the repo-server and the application-controller. It
	// implies CRDs, Controllers and Node.
	ArgoCD bool
	// Server runs argocd-server, without authentication, with Redis and the
	// repo-server. It implies CRDs.
	Server bool
	// RedisProxy has argocd-server use a Redis that is not there yet, at
	// [Cluster.RedisProxyAddress]: something else is to listen there, which knows the other.
	RedisProxy bool
	// Shared has the application-controller use a repo-server and a Redis that are not there
	// yet, at [Cluster.SharedRepoServerAddress] and [Cluster.SharedRedisAddress], and runs
	// none of its own.
	Shared bool
}

// A Stack is a set of running clusters, with one etcd below those that have none of their
// own.
type Stack struct {
	dir      string
	binaries *Binaries
	ports    *ports
	etcd     *etcd
	clusters map[string]*Cluster

	mu    sync.Mutex
	rings [lastRing][]*Process // what runs, by when it ends
}

// A ring is the order in which processes end: those of a ring together, and
// the outermost ring first.
type ring int

const (
	storage  ring = iota // an API server without its etcd does not end in time
	servers              // nor do clients without their API server
	programs             // everything else
	lastRing
)

// Start builds what is missing and starts the clusters. State and logs go to
// dir, which must be empty or new. When anything fails to start, everything is
// stopped again.
func Start(ctx context.Context, dir string, cfg Config) (*Stack, error) {
	out := cfg.Output
	if out == nil {
		out = io.Discard
	}
	binaries, err := Build(ctx, cmp.Or(cfg.ArgoCD, DefaultArgoCD), out)
	if err != nil {
		return nil, err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("stack: start in %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("stack: start: %w", err)
	}
	s := &Stack{
		dir:      dir,
		binaries: binaries,
		ports:    &ports{dir: filepath.Join(binaries.cache, "ports")},
		clusters: map[string]*Cluster{},
	}
	if err := s.start(ctx, cfg.Clusters); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Stack) start(ctx context.Context, configs []ClusterConfig) error {
	if err := s.startEtcd(ctx); err != nil {
		return err
	}
	for _, cfg := range configs {
		c, err := s.newCluster(cfg)
		if err != nil {
			return err
		}
		s.clusters[cfg.Name] = c
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range s.clusters {
		group.Go(func() error { return c.start(ctx) })
	}
	return group.Wait()
}

// Cluster returns the cluster of that name, or nil if there is none.
func (s *Stack) Cluster(name string) *Cluster { return s.clusters[name] }

// Binaries returns the programs the stack runs.
func (s *Stack) Binaries() *Binaries { return s.binaries }

// Dir returns the directory of state and logs.
func (s *Stack) Dir() string { return s.dir }

// Etcd returns the process that keeps the state of all clusters without an etcd of their
// own.
func (s *Stack) Etcd() *Process { return s.etcd.process }

// Port returns a port of 127.0.0.1 that stays reserved until the stack is
// closed.
func (s *Stack) Port() (int, error) { return s.ports.take() }

// Process returns a process, not started yet, that ends with the stack and
// before any of its servers. Where cfg has no Log, it gets one in the stack's
// directory.
func (s *Stack) Process(cfg ProcessConfig) *Process { return s.process(programs, cfg) }

func (s *Stack) process(r ring, cfg ProcessConfig) *Process {
	if cfg.Log == "" {
		cfg.Log = filepath.Join(s.dir, "logs", cfg.Name+".log")
	}
	p := NewProcess(cfg)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rings[r] = append(s.rings[r], p)
	return p
}

// Processes returns all processes of the stack, running or not.
func (s *Stack) Processes() []*Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.rings[:]...)
}

// Close ends all processes. A second call does nothing.
func (s *Stack) Close() error {
	s.mu.Lock()
	rings := s.rings
	s.mu.Unlock()
	var errs []error
	for _, processes := range slices.Backward(rings[:]) {
		errs = append(errs, stopAll(processes))
	}
	s.ports.release()
	return errors.Join(errs...)
}

// stopAll stops processes side by side.
func stopAll(processes []*Process) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	errs := make([]error, len(processes))
	var group sync.WaitGroup
	for i, p := range processes {
		group.Go(func() { errs[i] = p.Stop(ctx) })
	}
	group.Wait()
	return errors.Join(errs...)
}
