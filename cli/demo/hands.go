package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/deploy/examples"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// managed returns the managed spokes, lost that of them whose link is cut, and autonomous
// the other one.
func (w *world) managed() []*spoke  { return w.spokes[:len(w.spokes)-1] }
func (w *world) lost() *spoke       { return w.spokes[0] }
func (w *world) autonomous() *spoke { return w.spokes[len(w.spokes)-1] }

// onHub returns the key on the control plane of an Application of s.
func onHub(s *spoke, name string) resource.Key {
	return resource.Key{Kind: resource.Application, Namespace: s.Name, Name: name}
}

// onSpoke returns the key on a workload cluster of an Application.
func onSpoke(name string) resource.Key {
	return resource.Key{Kind: resource.Application, Namespace: argocd, Name: name}
}

// createOnHub applies an example on the control plane, for a managed agent.
func (w *world) createOnHub(s *spoke, name string) error {
	manifests, err := examples.Managed()
	if err != nil {
		return err
	}
	return apply(w.hub, bytes.ReplaceAll(manifests[name], []byte("edge-1"), []byte(s.Name)))
}

// createOnSpoke applies an example on a workload cluster.
func createOnSpoke(s *spoke, name string) error {
	manifests, err := examples.Autonomous()
	if err != nil {
		return err
	}
	return apply(s.cluster, manifests[name])
}

// createLocal applies on a workload cluster what is nobody else's business.
func createLocal(s *spoke) error {
	return apply(s.cluster, []byte(`
kind: Application
metadata: {name: local-debug, namespace: argocd}
spec:
  project: default
  source: {repoURL: "https://git.local/debug.git", targetRevision: HEAD, path: .}
  destination: {server: "https://kubernetes.default.svc", namespace: debug}
`))
}

func apply(s *memstore.Store, manifest []byte) error {
	o, err := parse(manifest)
	if err != nil {
		return err
	}
	s.Edit(o.Key, func(was *resource.Object) { was.Parts = o.Parts })
	return nil
}

// revise makes an Application want another revision of its source.
func revise(s *memstore.Store, k resource.Key, revision string) {
	s.Edit(k, func(o *resource.Object) {
		spec := fields(o.Parts[resource.Spec])
		source, _ := spec["source"].(map[string]any)
		source["targetRevision"] = revision
		o.Parts[resource.Spec] = resource.Canonical(spec)
	})
}

func label(s *memstore.Store, k resource.Key, key, value string) {
	s.Edit(k, func(o *resource.Object) {
		m := resource.ParseMetadata(o.Parts[resource.Meta])
		m.Labels[key] = value
		o.Parts[resource.Meta] = m.Text()
	})
}

// vandal returns what spoils a copy on a workload cluster, and whether that was undone.
func vandal(s *spoke) (spoil func(), undone func() bool) {
	k := onSpoke("guestbook")
	before, _ := s.cluster.Get(k)
	spoil = func() {
		revise(s.cluster, k, "somebody's")
		label(s.cluster, k, "tier", "lead")
	}
	undone = func() bool {
		now, ok := s.cluster.Get(k)
		return ok && now.UID == before.UID && now.Version != before.Version && now.Parts == before.Parts
	}
	return spoil, undone
}

// alike reports whether these spokes and the control plane have Applications of the same
// names, sources and status. It is only to know when to go on: what counts is read, and
// compared in full, at the end.
func (w *world) alike(spokes ...*spoke) bool {
	hub := w.hub.All()
	for _, s := range spokes {
		cluster, theirs := s.cluster.All(), 0
		for k, o := range hub {
			if k.Namespace != s.Name {
				continue
			}
			theirs++
			c := cluster[onSpoke(k.Name)]
			if c.Parts[resource.Status] == "" || c.Parts[resource.Status] != o.Parts[resource.Status] ||
				c.Parts[resource.Meta] != o.Parts[resource.Meta] || rest(c) != rest(o) {
				return false
			}
		}
		if theirs != len(cluster) {
			return false
		}
	}
	return true
}

// patience is how long anything may take that the script waits for.
const patience = 30 * time.Second

var errLate = errors.New("demo: it took too long")

// until waits until something has happened. It looks less and less often: looking costs
// time that the world needs.
func until(ctx context.Context, limit time.Duration, what string, happened func() bool) error {
	late := time.After(limit)
	for pause := time.Millisecond; !happened(); pause = min(2*pause, 64*time.Millisecond) {
		select {
		case <-time.After(pause):
		case <-late:
			return fmt.Errorf("%w: waited %v for %s", errLate, limit, what)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
