package clusterinfo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

// A Cache is what a Writer writes to; [Redis] is one.
type Cache interface {
	// Apply stores the values of put under their keys, for the time of lifetime, and
	// removes the keys of drop. After an error nobody knows how much of it was done.
	Apply(ctx context.Context, put map[string][]byte, drop []string, lifetime time.Duration) error
}

// Config is what a Writer is made of. Cache and Log are needed.
type Config struct {
	Cache Cache
	// Stale is how long an agent may be away before that is a failed connection; 0 is 5
	// minutes.
	Stale time.Duration
	// Every is the time between two rounds, in each of which all entries are written; 0 is
	// 10 s, as with Argo CD's own controller.
	Every time.Duration
	// Lifetime is how long an entry lives that is not written again; 0 is 10 minutes, as
	// with Argo CD's own.
	Lifetime time.Duration
	Log      *zap.Logger
}

// A Writer keeps Argo CD's cluster cache equal to what it is told of the agents. Its
// methods may be called from any goroutine; they do not wait for the cache.
type Writer struct {
	cfg  Config
	wake chan struct{} // there is something in changed or gone

	mu      sync.Mutex
	agents  map[string]Info
	changed map[string]bool // agents whose entries are not written yet
	gone    map[string]bool // keys that are not removed yet
}

// New returns a Writer, which writes nothing until Run is called.
func New(c Config) (*Writer, error) {
	if c.Cache == nil || c.Log == nil {
		return nil, errors.New("clusterinfo: cache and log are needed")
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		zero  time.Duration
	}{
		{"stale", &c.Stale, 5 * time.Minute},
		{"every", &c.Every, 10 * time.Second},
		{"lifetime", &c.Lifetime, 10 * time.Minute},
	} {
		switch {
		case *d.value < 0:
			return nil, fmt.Errorf("clusterinfo: %s of %v", d.name, *d.value)
		case *d.value == 0:
			*d.value = d.zero
		}
	}
	if c.Lifetime <= c.Every {
		return nil, fmt.Errorf("clusterinfo: entries that live for %v expire before they are written again after %v", c.Lifetime, c.Every)
	}
	return &Writer{
		cfg:     c,
		wake:    make(chan struct{}, 1),
		agents:  map[string]Info{},
		changed: map[string]bool{},
		gone:    map[string]bool{},
	}, nil
}

// Set says what is known of an agent's cluster, in place of what was said before.
func (w *Writer) Set(agent string, i Info) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old, ok := w.agents[agent]; ok && Key(old.Server) != Key(i.Server) {
		w.gone[Key(old.Server)] = true
	}
	w.agents[agent] = i
	w.changed[agent] = true
	w.ring()
}

// Forget removes the entry of an agent that is registered no more.
func (w *Writer) Forget(agent string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old, ok := w.agents[agent]; ok {
		delete(w.agents, agent)
		w.gone[Key(old.Server)] = true
		w.ring()
	}
}

func (w *Writer) ring() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run writes until ctx is done, and returns its cause. A cache that fails is no reason to
// end: it is written again in the next round. It is called once.
func (w *Writer) Run(ctx context.Context) error {
	rounds := time.NewTicker(w.cfg.Every)
	defer rounds.Stop()
	failing := false
	for all := true; ; {
		put, drop := w.due(time.Now(), all)
		err := w.apply(ctx, put, drop)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !failing:
			w.cfg.Log.Warn("clusters are not shown as they are", zap.Error(err))
		case err == nil && failing:
			w.cfg.Log.Info("clusters are shown as they are again")
		}
		failing = err != nil
		if failing {
			// What has changed meanwhile waits, too: the next round writes everything.
			select {
			case <-rounds.C:
				all = true
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		select {
		case <-w.wake:
			all = false
		case <-rounds.C:
			all = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// due returns the values to write, all or those that have changed, and the keys to remove.
func (w *Writer) due(now time.Time, all bool) (put map[string][]byte, drop []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	put = map[string][]byte{}
	for agent, i := range w.agents {
		delete(w.gone, Key(i.Server)) // it has come back, or another agent has it
		if all || w.changed[agent] {
			put[Key(i.Server)] = Encode(agent, i, now, w.cfg.Stale)
		}
	}
	clear(w.changed)
	for key := range w.gone {
		drop = append(drop, key)
	}
	return put, drop
}

// apply makes the cache what due has said. Keys are to be removed until they are.
func (w *Writer) apply(ctx context.Context, put map[string][]byte, drop []string) error {
	if len(put)+len(drop) == 0 {
		return nil
	}
	if err := w.cfg.Cache.Apply(ctx, put, drop, w.cfg.Lifetime); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range drop {
		delete(w.gone, key)
	}
	return nil
}
