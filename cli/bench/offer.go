package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// agentName is the agent's, and the namespace of its Applications on the hub.
const agentName = "edge-1"

// A change is one of an Application on the hub.
type change struct {
	app, n int // n is another one for every change, and grows
	at     time.Time
}

// An offer changes Applications on a hub.
type offer struct {
	hub    *memstore.Store
	random *rand.Rand
	last   []int // the number of the last change of each Application
	made   int
}

func newOffer(hub *memstore.Store, apps int, seed uint64) *offer {
	return &offer{hub: hub, random: rand.New(rand.NewPCG(seed, 0)), last: make([]int, apps)}
}

// all changes every Application once, which makes those that are not there.
func (o *offer) all() {
	for app := range o.last {
		o.change(app)
	}
}

// changes changes Applications at random, at a rate for some time. One that comes late is
// followed at once by those that are due.
func (o *offer) changes(ctx context.Context, rate int, d time.Duration) ([]change, error) {
	total := int(float64(rate) * d.Seconds())
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
		out = append(out, o.change(o.random.IntN(len(o.last))))
	}
	return out, nil
}

func (o *offer) change(app int) change {
	o.made++
	c := change{app: app, n: o.made, at: time.Now()}
	o.last[app] = c.n
	o.hub.Edit(resource.Key{Kind: resource.Application, Namespace: agentName, Name: name(app)}, func(to *resource.Object) {
		to.Parts[resource.Spec] = numbered(c.n)
	})
	return c
}

const prefix = "app-"

func name(app int) string { return fmt.Sprint(prefix, app) }

// appNamed is the inverse of name.
func appNamed(name string) (app int, err error) {
	_, err = fmt.Sscanf(name, prefix+"%d", &app)
	return app, err
}

// A numberedSpec is the spec of an Application that carries the number of a change.
type numberedSpec struct {
	Source struct {
		Revision int `json:"targetRevision,string"`
	} `json:"source"`
}

// numbered returns a spec of about 1 KiB with the number of a change.
func numbered(n int) string {
	return resource.Canonical(map[string]any{
		"project":     "default",
		"destination": map[string]any{"name": agentName, "namespace": "guestbook"},
		"source": map[string]any{
			"repoURL":        "https://git.example.com/apps.git",
			"path":           "guestbook",
			"targetRevision": fmt.Sprint(n),
			"helm":           map[string]any{"values": strings.Repeat("replicas: 3\n", 64)},
		},
		"syncPolicy": map[string]any{"automated": map[string]any{"prune": true, "selfHeal": true}},
	})
}

// number is the inverse of numbered.
func number(spec string) (int, error) {
	var s numberedSpec
	err := json.Unmarshal([]byte(spec), &s)
	return s.Source.Revision, err
}
