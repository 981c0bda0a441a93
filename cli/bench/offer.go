package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A change is one of an Application on the hub.
type change struct {
	app, n int // n is another one for every change, and grows
	at     time.Time
}

// hands change a hub, as its users do.
type hands func(ctx context.Context, agent, app, n int) error

// An offer changes Applications on a hub.
type offer struct {
	edit   hands
	random *rand.Rand
	apps   int   // of each agent
	last   []int // the number of the last change of each Application
	made   int
}

// newOffer returns an offer whose first change has the number after made.
func newOffer(edit hands, agents, apps, made int, seed uint64) *offer {
	return &offer{made: made, edit: edit, random: rand.New(rand.NewPCG(seed, 0)), apps: apps, last: make([]int, agents*apps)}
}

// all changes every Application once, which makes those that are not there.
func (o *offer) all(ctx context.Context) error {
	for app := range o.last {
		if _, err := o.change(ctx, app); err != nil {
			return err
		}
	}
	return nil
}

// uniform picks an Application at random.
func (o *offer) uniform() int { return o.random.IntN(len(o.last)) }

// some changes those Applications that are picked, at a rate for some time. A change that comes
// late is followed at once by those that are due.
func (o *offer) some(ctx context.Context, rate int, d time.Duration, pick func() int) ([]change, error) {
	total := int(float64(rate) * d.Seconds())
	if total < 1 {
		return nil, errors.New("not one change is made in that time")
	}
	out := make([]change, 0, total)
	began := time.Now()
	for i := range total {
		due := began.Add(time.Duration(float64(i) / float64(rate) * float64(time.Second)))
		if wait := time.Until(due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		c, err := o.change(ctx, pick())
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func (o *offer) change(ctx context.Context, app int) (change, error) {
	o.made++
	c := change{app: app, n: o.made, at: time.Now()}
	o.last[app] = c.n
	return c, o.edit(ctx, app/o.apps, app%o.apps, c.n)
}

// hands returns what changes this world's hub.
func (w *world) hands() (hands, error) {
	if w.Kubeconfig != "" {
		return kubeHands(w.Kubeconfig)
	}
	return memoryHands(w.mem), nil
}

func hubKey(agent, app int) resource.Key {
	return resource.Key{Kind: resource.Application, Namespace: fleet.Name(agent), Name: fleet.App(app)}
}

func memoryHands(hub *memstore.Store) hands {
	return func(_ context.Context, agent, app, n int) error {
		hub.Edit(hubKey(agent, app), func(to *resource.Object) { to.Parts[resource.Spec] = fleet.Spec(n) })
		return nil
	}
}
