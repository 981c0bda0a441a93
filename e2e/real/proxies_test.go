package real

import (
	"slices"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

// proxies are where the principal serves what is on spokes to the hub's Argo CD, and what of
// the hub's it shares with spokes; the zero ones are not there.
type proxies struct {
	hub    *stack.Cluster
	api    string   // the host:port of the resource proxy
	shared []string // the clusters whose Argo CD has neither a repo-server nor a Redis
}

func (p proxies) are() bool { return p.hub != nil }

// principal returns the flags by which the principal knows.
func (p proxies) principal() []string {
	if !p.are() {
		return nil // it looks for a certificate, and goes without
	}
	flags := []string{"--redis-proxy-listen", p.hub.RedisProxyAddress(), "--resource-proxy-listen", p.api, "--resource-proxy-address", p.api}
	if len(p.shared) > 0 {
		flags = append(flags, "--share-repo-server", p.hub.RepoServerAddress(), "--share-redis", p.hub.RedisAddress())
	}
	return flags
}

// agent returns the flags of agent create.
func (p proxies) agent() []string {
	if !p.are() {
		return nil
	}
	return []string{"--resource-proxy-server", p.api}
}

// spoke returns the flags of an agent on a cluster.
func (p proxies) spoke(c *stack.Cluster) []string {
	redis := c.RedisAddress()
	var flags []string
	switch {
	case !p.are():
		return nil
	case slices.Contains(p.shared, c.Name()):
		redis = c.SharedRedisAddress()
		flags = []string{"--share-redis-listen", redis, "--share-repo-server-listen", c.SharedRepoServerAddress()}
	case c.Process(stack.Redis) == nil:
		return nil
	}
	return append(flags, "--redis-addr", redis, "--live-allow", "exec,attach,port-forward,ServiceAccount")
}
