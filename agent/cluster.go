package agent

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
)

// clusterInterval is how often an Agent asks its cluster what it is.
const clusterInterval = 3 * time.Minute

// A board shows what is known of the agent's cluster to whoever waits for news of it.
type board struct {
	mu    sync.Mutex
	known *inquiry.Cluster
	news  chan struct{} // closed when known becomes another
}

func newBoard() *board { return &board{news: make(chan struct{})} }

// follow keeps the board up to date until ctx is done. What was known stays while the cluster
// does not answer: whoever cannot reach it has been told so elsewhere.
func (b *board) follow(ctx context.Context, ask func(context.Context) (inquiry.Cluster, error), log *zap.Logger) {
	look := time.NewTicker(clusterInterval)
	defer look.Stop()
	for {
		c, err := ask(ctx)
		if err != nil && ctx.Err() == nil {
			log.Debug("the cluster does not say what it is", zap.Error(err))
		}
		if err == nil {
			b.put(c)
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

func (b *board) put(c inquiry.Cluster) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known != nil && b.known.Equal(c) {
		return
	}
	b.known = &c
	close(b.news)
	b.news = make(chan struct{})
}

// next returns what is known once it is another than after; nil is any.
func (b *board) next(ctx context.Context, after *inquiry.Cluster) (inquiry.Cluster, error) {
	for {
		b.mu.Lock()
		known, news := b.known, b.news
		b.mu.Unlock()
		if known != nil && (after == nil || !known.Equal(*after)) {
			return *known, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return inquiry.Cluster{}, context.Cause(ctx)
		}
	}
}
