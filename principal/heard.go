package principal

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// What custody is told of agents: by the logs towards them, and by what they say.

// open says that a session with an agent begins, and what the log towards it holds. It waits
// until the store is listed.
func (a *allotment) open(ctx context.Context, p Placement, log engine.Opened) error {
	select {
	case <-a.listed:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	rows, keys := map[string]engine.Phase{}, map[resource.Key]bool{}
	for k, row := range log.Holds {
		if o, ok := a.named(p, k); ok && o.UID == row.UID {
			rows[o.UID], keys[o.Key] = row.Phase, true
		}
	}
	a.custody.open(p.Agent, log.Manifest != nil && a.remembers(p.Agent, log.Epoch), rows)
	complete := a.custody.complete() // else nothing that waits can be given to anybody
	a.review(func(k resource.Key) bool { return keys[k] || complete && a.waiting(k) || a.shown[k][p.Agent] != hidden })
	return nil
}

// named returns the Application that a key on the link to an agent names.
func (a *allotment) named(p Placement, k resource.Key) (resource.Object, bool) {
	k, ok := p.In(k)
	if !ok || k.Kind != resource.Application {
		return resource.Object{}, false
	}
	o, ok := a.objects[k]
	return o, ok
}

// observer returns what is to be told of each event of an agent's session.
func (a *allotment) observer(p Placement, epoch string) func(engine.Event, *engine.Engine) {
	answers := false
	return func(ev engine.Event, eng *engine.Engine) {
		switch ev := ev.(type) {
		case engine.Received:
			a.received(p, epoch, ev.Message, eng)
		case engine.Opened:
			a.mu.Lock()
			a.custody.replayed(p.Agent)
			a.review(func(k resource.Key) bool { return a.shown[k][p.Agent] != hidden })
			a.mu.Unlock()
		case engine.Presence:
			answers = ev.Peer
		case engine.Tick:
			if answers && eng.InStep() {
				a.meet(p.Agent, epoch, true)
			}
		}
	}
}

// meet takes in that an agent has been heard of, now or before, while the log towards it was
// of an epoch.
func (a *allotment) meet(agent, epoch string, now bool) {
	a.mu.Lock()
	news := a.custody.meet(agent, now)
	if news && a.custody.complete() {
		a.review(func(k resource.Key) bool { return a.waiting(k) || a.shown[k][agent] == parked })
	}
	a.mu.Unlock()
	if news {
		a.remember(agent, epoch)
	}
}

// remember keeps that a log holds all that its agent was shown, or that the agent was met
// since: one that was lost is no better for holding something again. Where that is lost too
// the agent has to be met anew.
func (a *allotment) remember(agent, epoch string) {
	if a.remembers(agent, epoch) {
		return
	}
	if err := errors.Join(a.met.Remove(agent), a.met.Add(map[string]string{agent: epoch})); err != nil {
		a.log.Warn("it is not kept that an agent was met: after a restart Applications may wait for it", zap.String("agent", agent), zap.Error(err))
	}
}

func (a *allotment) remembers(agent, epoch string) bool {
	return a.met.Has(agent) && a.met.Note(agent) == epoch
}

// received takes in what an agent has said.
func (a *allotment) received(p Placement, epoch string, m engine.Message, eng *engine.Engine) {
	if m.Key == engine.ManifestKey {
		a.meet(p.Agent, epoch, false)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if o, ok := a.named(p, m.Key); ok {
		row, says := eng.Told(m.Key)
		a.custody.said(p.Agent, o.UID, row, says)
		a.settle(o, false)
	}
}
