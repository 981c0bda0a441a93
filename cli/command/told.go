package command

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
)

// A told keeps what agents tell of their clusters. It listens to each process of an agent's
// that is there by one stream, over which nothing goes while nothing changes. What an agent
// that is away has told last stays.
type told struct {
	open func(ctx context.Context, agent, service string) (net.Conn, error)
	log  *zap.Logger

	mu      sync.Mutex
	known   map[string]inquiry.Cluster // by agent
	hearing map[string]string          // to which process of an agent it listens
}

func newTold(open func(context.Context, string, string) (net.Conn, error), log *zap.Logger) *told {
	return &told{open: open, log: log, known: map[string]inquiry.Cluster{}, hearing: map[string]string{}}
}

// again is after what time an agent is listened to again that has stopped telling.
const again = 30 * time.Second

// listen listens to all agents that are there and are not listened to, until ctx is done,
// and forgets those that are no more. It does not wait.
func (t *told) listen(ctx context.Context, agents []principal.AgentStatus, all *sync.WaitGroup) {
	t.mu.Lock()
	defer t.mu.Unlock()
	there := map[string]bool{}
	for _, a := range agents {
		there[a.Name] = true
		process := a.Session.Peer.Process
		if a.Session.Connected && t.hearing[a.Name] != process {
			t.hearing[a.Name] = process
			all.Go(func() { t.hear(ctx, a.Name, process) })
		}
	}
	for agent := range t.known {
		if !there[agent] {
			delete(t.known, agent)
			delete(t.hearing, agent)
		}
	}
}

// hear listens to one process of an agent's for as long as it tells.
func (t *told) hear(ctx context.Context, agent, process string) {
	dial := func(ctx context.Context) (net.Conn, error) { return t.open(ctx, agent, inquiry.Service) }
	err := inquiry.NewClient(dial).Cluster(ctx, func(c inquiry.Cluster) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.hearing[agent] != process {
			return errors.New("another process is listened to")
		}
		t.known[agent] = c
		return nil
	})
	if errors.Is(err, inquiry.ErrNoCluster) || ctx.Err() != nil {
		return // this process will not tell
	}
	t.log.Debug("an agent does not tell of its cluster", zap.String("agent", agent), zap.Error(err))
	select {
	case <-time.After(again):
	case <-ctx.Done():
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hearing[agent] == process {
		delete(t.hearing, agent)
	}
}

// of returns what an agent has told of its cluster last.
func (t *told) of(agent string) inquiry.Cluster {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[agent]
}
