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

// principal returns the settings by which the principal knows.
func (p proxies) principal() map[string]string {
	if !p.are() {
		return nil // it looks for a certificate, and goes without
	}
	settings := map[string]string{"principal.redis.proxy.listen": p.hub.RedisProxyAddress(), "principal.resource-proxy.listen": p.api}
	if len(p.shared) > 0 {
		settings["principal.share.repo-server"], settings["principal.share.redis"] = p.hub.RepoServerAddress(), p.hub.RedisAddress()
	}
	return settings
}

// agent returns the flags of agent create.
func (p proxies) agent() []string {
	if !p.are() {
		return nil
	}
	return []string{"--resource-proxy-server", p.api}
}

// spoke returns the settings of an agent on a cluster.
func (p proxies) spoke(c *stack.Cluster) map[string]string {
	settings := map[string]string{"agent.live-allow": "exec,attach,port-forward,ServiceAccount", "agent.redis.address": c.RedisAddress()}
	switch {
	case !p.are():
		return nil
	case slices.Contains(p.shared, c.Name()):
		settings["agent.redis.address"] = c.SharedRedisAddress()
		settings["agent.share.redis-listen"], settings["agent.share.repo-server-listen"] = c.SharedRedisAddress(), c.SharedRepoServerAddress()
	case c.Process(stack.Redis) == nil:
		return nil
	}
	return settings
}
