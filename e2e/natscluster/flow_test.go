package natscluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

const (
	pace  = 50 * time.Millisecond // between two changes of a flow
	ahead = 60                    // Applications that there are before statuses flow back
)

// A flow is what travels between the control plane and one agent in one direction: Applications, of
// which each is made once, or their statuses, of which each is written once.
type flow struct {
	name string

	mu   sync.Mutex
	sent []time.Time         // by number
	came map[int][]time.Time // by number
	seen chan struct{}       // has an element when something has come
}

func newFlow(name string) *flow {
	return &flow{name: name, came: map[int][]time.Time{}, seen: make(chan struct{}, 1)}
}

func (f *flow) leaves() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = append(f.sent, time.Now())
	return len(f.sent) - 1
}

func (f *flow) arrives(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.came[n] = append(f.came[n], time.Now())
	select {
	case f.seen <- struct{}{}:
	default:
	}
}

// missing returns how many of those that were sent before a time have not come.
func (f *flow) missing(before time.Time) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, at := range f.sent {
		if at.Before(before) && len(f.came[i]) == 0 {
			n++
		}
	}
	return n
}

func (f *flow) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.came)
}

// again waits until something has come that was sent after a fault was over, and returns how long nothing
// had at most since it began.
func (f *flow) again(ctx context.Context, began, over time.Time) (silence time.Duration, err error) {
	for {
		if silence, done := f.silence(began, over); done {
			return silence, nil
		}
		select {
		case <-f.seen:
		case <-ctx.Done():
			return 0, fmt.Errorf("%s: nothing comes: %w", f.name, context.Cause(ctx))
		}
	}
}

// silence returns the longest pause between arrivals since a fault began, and whether something has come
// that was sent after it was over.
func (f *flow) silence(began, over time.Time) (longest time.Duration, done bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	arrived := []time.Time{began}
	for n, all := range f.came {
		for _, at := range all {
			if at.After(began) {
				arrived = append(arrived, at)
				done = done || f.sent[n].After(over)
			}
		}
	}
	slices.SortFunc(arrived, time.Time.Compare)
	for i, at := range arrived[1:] {
		longest = max(longest, at.Sub(arrived[i]))
	}
	return longest, done
}

// A pair is the two flows of an agent.
type pair struct {
	agent      string
	down, up   *flow
	hub, spoke jetstream.KeyValue
}

func (w *world) pair(t *testing.T, ctx context.Context, agent string) *pair {
	p := &pair{agent: agent, down: newFlow(agent + ", down"), up: newFlow(agent + ", up")}
	var err error
	p.hub, err = w.js.KeyValue(ctx, "hub")
	require.NoError(t, err)
	p.spoke, err = w.js.KeyValue(ctx, agent)
	require.NoError(t, err)
	return p
}

// An application is what is read of a value in a bucket.
type application struct {
	Spec struct {
		Project string         `json:"project"`
		Source  map[string]any `json:"source"`
	} `json:"spec"`
	Status map[string]any `json:"status"`
}

// number returns the number in a key of an Application of a namespace; -1 is that it is none.
func number(key, namespace string) int {
	text, is := strings.CutPrefix(key, "Application."+namespace+".app-")
	n, err := strconv.Atoi(text)
	if !is || err != nil {
		return -1
	}
	return n
}

// each calls f for each value that is put into a bucket of an Application in a namespace.
func each(ctx context.Context, kv jetstream.KeyValue, namespace string, f func(n int, a application)) error {
	watch, err := kv.WatchAll(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = watch.Stop() }() // it ends with ctx
	for {
		select {
		case e := <-watch.Updates():
			if e == nil || e.Operation() != jetstream.KeyValuePut {
				continue
			}
			if n := number(e.Key(), namespace); n >= 0 {
				var a application
				if err := json.Unmarshal(e.Value(), &a); err != nil {
					return err
				}
				f(n, a)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// run has both flow, and notes what comes, until ctx is done. What is under way is waited for until
// watching is done.
func (p *pair) run(ctx, watching context.Context, all interface{ Go(func() error) }) {
	all.Go(func() error {
		return each(watching, p.spoke, "argocd", func(n int, a application) {
			if a.Status == nil { // else it is the status that is written there
				p.down.arrives(n)
			}
		})
	})
	all.Go(func() error {
		return each(watching, p.hub, p.agent, func(n int, a application) {
			if a.Status != nil {
				p.up.arrives(n)
			}
		})
	})
	all.Go(func() error { return paced(ctx, p.create) })
	all.Go(func() error { return paced(ctx, p.report) })
}

func paced(ctx context.Context, f func(context.Context) error) error {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := f(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
}

// create makes an Application on the hub.
func (p *pair) create(ctx context.Context) error {
	n := p.down.leaves()
	text := fmt.Sprintf(`{"kind": "Application", "metadata": {"namespace": %q, "name": "app-%d", "uid": "%s-%d"}, "spec": {"project": "default", "source": {"path": "v%d"}}}`, p.agent, n, p.agent, n, n)
	_, err := p.hub.Create(ctx, fmt.Sprintf("Application.%s.app-%d", p.agent, n), []byte(text))
	return err
}

// report writes the status of the next Application on the spoke, if there are enough.
func (p *pair) report(ctx context.Context) error {
	if p.down.count() < ahead {
		return nil
	}
	n := p.up.next()
	e, err := p.spoke.Get(ctx, fmt.Sprintf("Application.argocd.app-%d", n))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil // it is under way
	}
	if err != nil {
		return err
	}
	var value map[string]any
	if err := json.Unmarshal(e.Value(), &value); err != nil {
		return err
	}
	value["status"] = map[string]any{"health": map[string]any{"status": "Healthy", "message": fmt.Sprint("v", n)}}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	p.up.leaves()
	_, err = p.spoke.Update(ctx, e.Key(), text, e.Revision())
	return err
}

// next returns the number that is sent next.
func (f *flow) next() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.sent)
}

// judge returns what was lost, and what has come more than once.
func (f *flow) judge() (lost, twice []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := range f.sent {
		switch len(f.came[n]) {
		case 0:
			lost = append(lost, n)
		case 1:
		default:
			twice = append(twice, n)
		}
	}
	return lost, twice
}
