package enroll

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// Bounds of what a Desk keeps, and of what it does.
const (
	maxWaiting = 1000
	lingering  = time.Minute            // for which one is kept that does not come again
	pace       = 100 * time.Millisecond // between two registrations
	patience   = 10 * time.Second       // after one that has failed
)

// Config is what a Desk is made of. Log is needed.
type Config struct {
	Policy Policy
	// Register registers an agent; nil is that each waits until somebody has approved it, and
	// registered it elsewhere. It must not change what it is given.
	Register func(context.Context, Candidate) error
	Log      *zap.Logger
}

// A Candidate is an agent that waits to be registered.
type Candidate struct {
	Agent string // the proven name
	From  string // its address, when it came last
	// Wish is what it wants to be, without the labels that the Policy does not allow. nil is
	// that it has not said so.
	Wish    *Wish
	Dropped []string // the keys of those labels
	Since   time.Time
	Last    time.Time // when it came last
	Err     error     // why it could not be registered; nil where nobody has tried
}

// waiting is a Candidate, and what the Desk has done about it.
type waiting struct {
	Candidate
	says string
	told time.Time // when the log was
	due  time.Time // when it is to be registered, or was
	done bool      // it is registered, and the transport will know soon
}

// A Desk keeps which agents wait to be registered.
type Desk struct {
	cfg  Config
	wake chan struct{} // holds a token if somebody new has come

	mu   sync.Mutex
	all  map[string]*waiting
	full time.Time // when it was told last that there are too many
}

// NewDesk returns a Desk at which nobody waits.
func NewDesk(c Config) (*Desk, error) {
	if c.Log == nil {
		return nil, errors.New("enroll: a log is needed")
	}
	return &Desk{cfg: c, wake: make(chan struct{}, 1), all: map[string]*waiting{}}, nil
}

// Meet takes in that a stranger has come. It does not wait.
func (d *Desk) Meet(s transport.Stranger, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.all[s.Agent]
	switch {
	case w == nil && !d.room(now):
		return
	case w == nil, now.Sub(w.Last) > lingering, w.done && now.Sub(w.due) > lingering: // it was unregistered again
		w = &waiting{Candidate: Candidate{Agent: s.Agent, Since: now}}
		d.all[s.Agent] = w
	}
	fresh := w.Last.IsZero() || w.says != s.Says
	w.Last, w.From = now, s.From
	if w.done || !fresh {
		return
	}
	w.says, w.due = s.Says, now
	d.read(w, now)
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// room reports whether another one may wait. It is called with the lock held.
func (d *Desk) room(now time.Time) bool {
	if len(d.all) < maxWaiting {
		return true
	}
	d.forget(now)
	if len(d.all) < maxWaiting {
		return true
	}
	if now.Sub(d.full) > lingering {
		d.full = now
		d.cfg.Log.Error("too many agents wait to be registered: others are not heard until there are fewer", zap.Int("waiting", len(d.all)))
	}
	return false
}

// forget forgets who does not come again. It is called with the lock held.
func (d *Desk) forget(now time.Time) {
	for name, w := range d.all {
		if now.Sub(w.Last) > lingering {
			delete(d.all, name)
		}
	}
}

// read reads what one says. It is called with the lock held.
func (d *Desk) read(w *waiting, now time.Time) {
	w.Wish, w.Dropped, w.Err = nil, nil, nil
	if w.says == "" {
		w.Err = errSilent
	} else if wish, err := ParseWish(w.says); err != nil {
		w.Err = err
	} else {
		wish.Labels, w.Dropped = d.cfg.Policy.Split(wish.Labels)
		w.Wish = &wish
	}
	if now.Sub(w.told) > lingering { // it may say something else each time
		w.told = now
		d.tell(w.Candidate)
	}
}

var errSilent = errors.New("it does not say what it wants to be: start it with --enable-self-cluster-registration")

// tell tells the log of one that has come.
func (d *Desk) tell(c Candidate) {
	log := d.cfg.Log.With(zap.String("agent", c.Agent), zap.String("from", c.From))
	if len(c.Dropped) > 0 {
		log = log.With(zap.Strings("dropped", c.Dropped), zap.String("because", "--self-registration-label allows other labels"))
	}
	switch {
	case c.Wish == nil:
		log.Warn("an agent that is not registered cannot be understood: argocd-agentctl agent approve --mode registers it", zap.Error(c.Err))
	case d.cfg.Register == nil:
		log.Warn("an agent waits for its registration: argocd-agentctl agent approve", zap.Stringer("mode", c.Wish.Mode), zap.Any("labels", c.Wish.Labels))
	default:
		log.Info("an agent asks to be registered", zap.Stringer("mode", c.Wish.Mode), zap.Any("labels", c.Wish.Labels))
	}
}

// Waiting returns who waits, sorted by name.
func (d *Desk) Waiting(now time.Time) (all []Candidate) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget(now)
	for _, w := range d.all {
		if !w.done {
			all = append(all, w.Candidate)
		}
	}
	slices.SortFunc(all, func(a, b Candidate) int { return cmp.Compare(a.Agent, b.Agent) })
	return all
}

// Run has those registered that may be, until ctx is done, and returns its cause.
func (d *Desk) Run(ctx context.Context) error {
	if d.cfg.Register == nil {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	again := time.NewTicker(patience)
	defer again.Stop()
	for {
		select {
		case <-d.wake:
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for _, c := range d.due(time.Now()) {
			d.settle(c, d.cfg.Register(ctx, c), time.Now())
			next := time.NewTimer(pace)
			select {
			case <-next.C:
			case <-ctx.Done():
			}
			next.Stop()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
}

// due returns those that are to be registered now, first come, first served.
func (d *Desk) due(now time.Time) (all []Candidate) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget(now)
	for _, w := range d.all {
		if !w.done && w.Wish != nil && !w.due.After(now) {
			all = append(all, w.Candidate)
		}
	}
	slices.SortFunc(all, func(a, b Candidate) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Agent, b.Agent)) })
	return all
}

// settle takes in what has become of a registration.
func (d *Desk) settle(c Candidate, err error, now time.Time) {
	log := d.cfg.Log.With(zap.String("agent", c.Agent), zap.String("from", c.From), zap.Stringer("mode", c.Wish.Mode))
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.all[c.Agent]
	if w == nil {
		w = &waiting{} // whoever it was does not come again, and nothing is kept of it
	}
	if err != nil {
		if w.Err == nil || w.Err.Error() != err.Error() {
			log.Error("an agent cannot be registered", zap.Error(err))
		}
		w.Err, w.due = err, now.Add(patience)
		return
	}
	w.done, w.due, w.Err = true, now, nil
	log.Info("an agent has registered itself", zap.Any("labels", c.Wish.Labels))
}
