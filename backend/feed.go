package backend

import (
	"context"
	"sync"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A Feed carries the changes of one store to its running watches. Each watch has a
// queue of the keys that it has not shown yet, in the order of their first change, with
// the last state of each: a slow watch costs memory by the object, never by the change,
// and delays no other. A change costs as much as there are watches whose scope holds it.
//
// Put, Gone and Watch must be called in the order of what they tell, that is, with the
// store locked. The zero Feed is ready to use.
type Feed struct {
	mu      sync.Mutex
	watches map[string]map[*queue]struct{} // by the namespaces of their scope, "" where it is all
}

// places returns under which namespaces a watch is kept.
func (s Scope) places() []string {
	if len(s.Namespaces) == 0 {
		return []string{""}
	}
	return s.Namespaces
}

// Put says that o exists, or has changed.
func (f *Feed) Put(o resource.Object) {
	f.change(o.Key, func(i *item) { i.put = &o })
}

// Gone says that an object exists no more. A watch always shows it before the object
// that takes its place.
func (f *Feed) Gone(g Gone) {
	f.change(g.Key, func(i *item) {
		// Of several that went between two showings the first is the one that the
		// watch has shown, and the last is the one that its writer asks about.
		i.put, i.gone = nil, append(i.gone[:min(len(i.gone), 1)], g)
	})
}

// Shown returns once every running watch whose scope holds k has shown all that the
// Feed was told of k before the call.
func (f *Feed) Shown(ctx context.Context, k resource.Key) error {
	for _, shown := range f.unshown(k) {
		select {
		case <-shown:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Watch begins a watch of a store that holds objects, those in scope, and returns what
// runs it, as Store.Watch promises. That must be called once.
func (f *Feed) Watch(scope Scope, objects []resource.Object, synced Synced) (run func(context.Context, func(Event) error) error) {
	q := &queue{wake: make(chan struct{}, 1), pending: map[resource.Key]*item{}}
	for _, o := range objects {
		q.change(o.Key, func(i *item) { i.put = &o })
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watches == nil {
		f.watches = map[string]map[*queue]struct{}{}
	}
	for _, ns := range scope.places() {
		if f.watches[ns] == nil {
			f.watches[ns] = map[*queue]struct{}{}
		}
		f.watches[ns][q] = struct{}{}
	}
	return func(ctx context.Context, show func(Event) error) error {
		defer f.end(scope, q)
		for range objects { // they are first in the queue, and stay so
			if err := f.showNext(ctx, q, show); err != nil {
				return err
			}
		}
		if err := show(Event{Synced: &synced}); err != nil {
			return err
		}
		for {
			if err := f.showNext(ctx, q, show); err != nil {
				return err
			}
		}
	}
}

// End ends all running watches: they show no more, and return err.
func (f *Feed) End(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, queues := range f.watches {
		for q := range queues {
			q.ended = err
			q.signal()
		}
	}
}

func (f *Feed) change(k resource.Key, change func(*item)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.holding(k) {
		q.change(k, change)
	}
}

// holding returns the queues of the watches whose scope holds k.
func (f *Feed) holding(k resource.Key) []*queue {
	var out []*queue
	for q := range f.watches[""] {
		out = append(out, q)
	}
	if k.Namespace != "" {
		for q := range f.watches[k.Namespace] {
			out = append(out, q)
		}
	}
	return out
}

// unshown returns what will be closed once k has been shown, for each watch that is
// behind.
func (f *Feed) unshown(k resource.Key) []<-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []<-chan struct{}
	for _, q := range f.holding(k) {
		i := q.pending[k]
		if i == nil && q.showing != nil && q.showing.key == k {
			i = q.showing
		}
		if i == nil {
			continue
		}
		if i.shown == nil {
			i.shown = make(chan struct{})
		}
		out = append(out, i.shown)
	}
	return out
}

// showNext shows what is first in q, and waits for it if there is nothing.
func (f *Feed) showNext(ctx context.Context, q *queue, show func(Event) error) error {
	i, err := f.take(q)
	for i == nil && err == nil {
		select {
		case <-q.wake:
			i, err = f.take(q)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err != nil {
		return err
	}
	for _, e := range i.events() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := show(e); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	q.showing = nil
	i.done()
	return nil
}

// take returns the first item of q, if there is one, or why q has ended.
func (f *Feed) take(q *queue) (*item, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.ended != nil || len(q.order) == 0 {
		return nil, q.ended
	}
	i := q.pending[q.order[0]]
	delete(q.pending, i.key)
	q.order, q.showing = q.order[1:], i
	return i, nil
}

// end takes q out of the Feed. A watch that has ended is waited for no longer.
func (f *Feed) end(scope Scope, q *queue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ns := range scope.places() {
		delete(f.watches[ns], q)
		if len(f.watches[ns]) == 0 {
			delete(f.watches, ns)
		}
	}
	if q.showing != nil {
		q.showing.done()
	}
	for _, i := range q.pending {
		i.done()
	}
}

// A queue is what one watch has not shown yet.
type queue struct {
	wake    chan struct{} // holds a token if something was added since it was last empty
	order   []resource.Key
	pending map[resource.Key]*item
	showing *item
	ended   error // why nothing more is shown
}

func (q *queue) change(k resource.Key, change func(*item)) {
	i := q.pending[k]
	if i == nil {
		i = &item{key: k}
		q.pending[k] = i
		q.order = append(q.order, k)
	}
	change(i)
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// An item is what one watch has not shown yet of one key.
type item struct {
	key   resource.Key
	gone  []Gone
	put   *resource.Object // comes after gone
	shown chan struct{}    // made for whoever waits
}

func (i *item) events() []Event {
	var out []Event
	for _, g := range i.gone {
		out = append(out, Event{Gone: &g})
	}
	if i.put != nil {
		o := *i.put // other watches are shown the same object
		out = append(out, Event{Put: &o})
	}
	return out
}

func (i *item) done() {
	if i.shown != nil {
		close(i.shown)
	}
}
