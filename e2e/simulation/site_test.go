package simulation

import (
	"strconv"

	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A site is where the Applications of one agent are in one cluster, and the hands of its
// users.
type site struct {
	*memstore.Store
	namespace string
}

// hub returns the agent's site at the hub, and here the one at the spoke.
func (s *spoke) hub() site  { return site{s.w.cluster, s.name} }
func (s *spoke) here() site { return site{s.cluster, argocd} }

// owner returns the site of the originals, and other that of the copies.
func (s *spoke) owner() site {
	if s.w.mode == resource.Autonomous {
		return s.here()
	}
	return s.hub()
}

func (s *spoke) other() site {
	if s.w.mode == resource.Autonomous {
		return s.hub()
	}
	return s.here()
}

func (c site) key(name string) resource.Key {
	return resource.Key{Kind: resource.Application, Namespace: c.namespace, Name: name}
}

func (c site) get(name string) (resource.Object, bool) { return c.Get(c.key(name)) }

func (c site) has(name string) bool {
	_, ok := c.get(name)
	return ok
}

func (c site) part(name string, p resource.Part) string {
	o, _ := c.get(name)
	return o.Parts[p]
}

// n returns the number in a part, -1 if there is none.
func (c site) n(name string, p resource.Part) int { return numberIn(c.part(name, p)) }

func (c site) set(name string, p resource.Part, text string) {
	c.Edit(c.key(name), func(o *resource.Object) { o.Parts[p] = text })
}

func (c site) delete(name string) { c.Delete(c.key(name)) }

// identities returns the UIDs of all objects by name.
func (c site) identities() map[string]string {
	out := map[string]string{}
	for k, o := range c.All() {
		if k.Namespace == c.namespace {
			out[k.Name] = o.UID
		}
	}
	return out
}

// number is a spec or a status that holds n.
func number(n int) string { return `{"n":` + strconv.Itoa(n) + `}` }

func numberIn(text string) int {
	v, err := resource.Decode(text)
	m, ok := v.(map[string]any)
	if err != nil || !ok {
		return -1
	}
	n, ok := m["n"].(interface{ Int64() (int64, error) })
	if !ok {
		return -1
	}
	i, err := n.Int64()
	if err != nil {
		return -1
	}
	return int(i)
}
