package principal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/project"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// An allotment shares the Applications of a hub under destination mapping out to its managed
// agents: each is shown to the agent that its destination names, and one that is aimed at
// another is shown to leave the first before it is shown to the second, see custody.
//
// It watches the hub's store once for all agents, and of each change tells only those whom it
// concerns. It writes nothing but why an Application waits, and that only while no session
// sees to it.
type allotment struct {
	store   backend.Store
	home    string      // the namespace of Argo CD
	allowed []string    // patterns of others where Applications may be
	met     *ledger.Set // agents, with the epoch of the log that was theirs when they were met
	log     *zap.Logger
	listed  chan struct{} // closed once the store is, for good

	mu       sync.Mutex
	whole    chan struct{} // closed while a watch runs that has listed everything
	revision uint64
	objects  map[resource.Key]resource.Object
	matters  map[resource.Key]matter // of Applications
	custody  custody
	others   []string                            // autonomous agents
	enrolled bool                                // it is known which agents there are
	shown    map[resource.Key]map[string]verdict // of Applications, by agent
	waits    map[resource.Key]string             // why an Application waits, if it does
	feeds    map[string]*backend.Feed            // by agent
	due      map[resource.Key]bool               // what it waits for is to be written; true if that was so at the last look
	began    time.Time
}

func newAllotment(store backend.Store, home string, allowed []string, met *ledger.Set, log *zap.Logger) *allotment {
	return &allotment{
		store: store, home: home, allowed: allowed, met: met, log: log, listed: make(chan struct{}),
		whole: make(chan struct{}), custody: newCustody(), feeds: map[string]*backend.Feed{},
		objects: map[resource.Key]resource.Object{}, matters: map[resource.Key]matter{},
		shown: map[resource.Key]map[string]verdict{}, waits: map[resource.Key]string{},
		due: map[resource.Key]bool{}, began: time.Now(),
	}
}

// enrol says which agents are registered, and which others are still to be forgotten that
// were removed before this process.
func (a *allotment) enrol(set []backend.Agent, left []string) {
	var managed, others []string
	for _, agent := range set {
		if agent.Mode == resource.Managed {
			managed = append(managed, agent.Name)
		} else {
			others = append(others, agent.Name)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.custody.remain(left)
	for agent, n := range a.custody.enrol(managed, others) {
		delete(a.feeds, agent)
		if n > 0 {
			a.log.Warn("an agent is not registered as managed any more, and may still have Applications, which stay with it until it is forgotten",
				zap.String("agent", agent), zap.Int("applications", n))
		}
	}
	for _, agent := range managed {
		if a.feeds[agent] == nil {
			a.feeds[agent] = &backend.Feed{}
		}
	}
	a.others, a.enrolled = others, true
	for k := range a.matters {
		a.matters[k] = a.matter(a.objects[k])
	}
	a.review(all)
}

// forgotten says that all is removed that was kept for an agent.
func (a *allotment) forgotten(agent string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.custody.forgotten(agent); n > 0 {
		a.log.Warn("an agent is forgotten, and whatever it still has is not waited for", zap.String("agent", agent), zap.Int("applications", n))
	}
	a.review(all)
	if err := a.met.Remove(agent); err != nil { // it will have another log, if it comes again
		a.log.Debug("it is still kept that an agent was met that is forgotten", zap.String("agent", agent), zap.Error(err))
	}
}

// run watches the store until ctx is done, and returns its cause.
func (a *allotment) run(ctx context.Context) error {
	var telling sync.WaitGroup
	defer telling.Wait()
	telling.Go(func() { a.tell(ctx) })
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		began := time.Now()
		l := lister{a, map[resource.Key]bool{}}
		err := a.store.Watch(ctx, backend.Scope{}, l.event)
		a.interrupted(err)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		a.log.Warn("the hub's store cannot be watched, which is tried again", zap.Error(err))
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// interrupted says that the store is not watched any more: so nobody is.
func (a *allotment) interrupted(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		err = errors.New("the watch has ended")
	}
	for _, f := range a.feeds {
		f.End(err)
	}
	select {
	case <-a.whole:
		a.whole = make(chan struct{})
	default:
	}
	if errors.Is(err, backend.ErrRewound) {
		a.revision = 0
	}
}

// A lister takes in one watch of the store.
type lister struct {
	*allotment
	there map[resource.Key]bool // what was listed; nil once all is
}

func (l *lister) event(e backend.Event) error {
	a := l.allotment
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case e.Put != nil:
		if l.there != nil {
			l.there[e.Put.Key] = true
		}
		a.put(*e.Put)
	case e.Gone != nil:
		a.gone(*e.Gone)
	default:
		for k, o := range a.objects {
			if !l.there[k] {
				a.gone(backend.Gone{Key: k, UID: o.UID})
			}
		}
		l.there = nil
		a.revision = max(a.revision, e.Synced.Revision)
		a.begun()
	}
	return nil
}

// begun says that everything is listed.
func (a *allotment) begun() {
	select {
	case <-a.listed:
	default:
		close(a.listed)
	}
	close(a.whole)
}

func (a *allotment) put(o resource.Object) {
	if old, ok := a.objects[o.Key]; ok && old.UID != o.UID {
		a.gone(backend.Gone{Key: o.Key, UID: old.UID})
	}
	a.objects[o.Key] = o
	if v, err := strconv.ParseUint(o.Version, 10, 64); err == nil {
		a.revision = max(a.revision, v)
	}
	if o.Key.Kind == resource.Application {
		a.matters[o.Key] = a.matter(o)
		a.settle(o, true)
	} else if o.Key.Namespace == a.home {
		for _, f := range a.feeds {
			f.Put(o)
		}
	}
}

func (a *allotment) gone(g backend.Gone) {
	o, ok := a.objects[g.Key]
	if !ok {
		return
	}
	delete(a.objects, g.Key)
	if g.Key.Kind != resource.Application {
		for _, f := range a.feeds {
			f.Gone(g)
		}
		return
	}
	for agent := range a.shown[g.Key] {
		a.feed(agent).Gone(g)
	}
	delete(a.shown, g.Key)
	delete(a.waits, g.Key)
	delete(a.matters, g.Key)
	if g.Seen {
		a.custody.forget(o.UID)
	}
}

// feed returns the one of an agent; one that is registered no more has none that anybody
// reads.
func (a *allotment) feed(agent string) *backend.Feed {
	if f := a.feeds[agent]; f != nil {
		return f
	}
	return &backend.Feed{}
}

// review settles some Applications anew.
func (a *allotment) review(which func(resource.Key) bool) {
	for _, k := range slices.SortedFunc(maps.Keys(a.matters), resource.Key.Compare) {
		if which(k) {
			a.settle(a.objects[k], false)
		}
	}
}

func all(resource.Key) bool { return true }

// waiting says of an Application whether it waits.
func (a *allotment) waiting(k resource.Key) bool { return a.waits[k] != "" }

// settle decides what each agent is shown of an Application, and shows it. One that has not
// changed is shown to those only for whom something has.
func (a *allotment) settle(o resource.Object, changed bool) {
	now, waits := a.custody.settle(a.matters[o.Key])
	before := a.shown[o.Key]
	a.shown[o.Key], a.waits[o.Key] = now, waits
	if waits == "" {
		delete(a.waits, o.Key)
	}
	for agent := range before {
		if now[agent] == hidden {
			a.feed(agent).Gone(backend.Gone{Key: o.Key, UID: o.UID, Seen: true})
		}
	}
	for agent, v := range now {
		if is, ok := shownAs(o, v); ok && (changed || before[agent] != v) {
			a.feed(agent).Put(is)
		}
	}
	if said, ours := a.saying(o); ours && said != o.Parts[resource.Pending] {
		if _, known := a.due[o.Key]; !known {
			a.due[o.Key] = false
		}
	}
}

// matter says what custody is to know of an Application.
func (a *allotment) matter(o resource.Object) matter {
	m := matter{
		uid: o.UID, deleting: o.Deleting, ran: o.Parts[resource.Status]+o.Parts[resource.Fault] != "",
		still: backend.Exclude(o).Excluded || o.Origin.UID != "" || a.forbids(o.Key.Namespace) != "",
	}
	if !m.still {
		m.to = aim(o.Parts[resource.Spec])
	}
	return m
}

// forbids says why Applications in a namespace are no managed agent's, "" if they may be.
func (a *allotment) forbids(namespace string) string {
	switch {
	case slices.Contains(a.others, namespace):
		return fmt.Sprintf("namespace %s is that of an autonomous agent", namespace)
	case namespace != a.home && !project.MatchNamespace(a.allowed, namespace):
		return fmt.Sprintf("namespace %s is not among the principal's --allowed-namespaces", namespace)
	}
	return ""
}
