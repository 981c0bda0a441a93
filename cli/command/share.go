package command

import (
	"context"
	"fmt"
	"net"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/agent"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/proxy"
	"github.com/argocd-fabric/argocd-agent/proxy/redis"
	"github.com/argocd-fabric/argocd-agent/proxy/share"
)

// shareFlags are those by which a principal lets agents use what the control plane has.
func shareFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.String("share-repo-server", "", "", "the `host:port` of Argo CD's repository server, for agents with --share-repo-server-listen to use. Whoever uses it can have rendered whatever it reaches; empty is off"),
		f.String("share-redis", "", "", "the `host:port` of Argo CD's Redis, for agents with --share-redis-listen to keep something in, each apart from all others; the other --redis- flags say how it is reached; empty is off"),
	}
}

// sharedFlags are those by which an agent's Argo CD uses what the control plane has.
func sharedFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.String("share-repo-server-listen", "", "", "the `address`, such as 127.0.0.1:8081, at which this cluster's Argo CD finds the repository server of the control plane; whoever reaches it may use it. The principal needs --share-repo-server; empty is off"),
		f.String("share-redis-listen", "", "", "the `address`, such as 127.0.0.1:6379, at which this cluster's Argo CD finds a part of the control plane's Redis, as its own, in clear and with any password; whoever reaches it may use it. The principal needs --share-redis; empty is off"),
	}
}

// How many connections one agent may have at a time to each server that is shared.
const sharedConns = 128

// A sharing is what a principal shares.
type sharing struct {
	repoServer string
	redis      redis.Server
	log        *zap.Logger
}

func newSharing(c *cli.Context, log *zap.Logger) (s sharing, err error) {
	s.log = log.Named("share")
	if s.repoServer, err = shell.Address(c, "share-repo-server"); err != nil {
		return s, err
	}
	s.redis, err = hubRedis(c, "share-redis")
	return s, err
}

// services returns what one agent may use.
func (s sharing) services(agent string) proxy.Services {
	log, services := s.log.With(zap.String("agent", agent)), proxy.Services{}
	if s.repoServer != "" {
		f, err := share.NewForward(share.ForwardConfig{Address: s.repoServer, Conns: sharedConns, Log: log})
		s.add(services, share.RepoServer, f, err)
	}
	if s.redis.Address != "" {
		d, err := redis.NewConfined(redis.ConfinedConfig{Redis: s.redis, Prefix: "argocd-agent|" + agent + "|", Conns: sharedConns, Log: log})
		s.add(services, share.Redis, d, err)
	}
	return services
}

// A server serves streams.
type server interface {
	Serve(ctx context.Context, c net.Conn)
}

func (s sharing) add(to proxy.Services, name string, is server, err error) {
	if err != nil {
		s.log.Error("a server is not shared", zap.String("service", name), zap.Error(err))
		return
	}
	to[name] = is.Serve
}

// sharedDoors returns what serves an agent's Argo CD in the place of the control plane's
// servers, where flags say so.
func sharedDoors(c *cli.Context, a *agent.Agent, log *zap.Logger) (doors []func(context.Context) error, err error) {
	for _, d := range []struct{ flag, service string }{
		{"share-repo-server-listen", share.RepoServer},
		{"share-redis-listen", share.Redis},
	} {
		address, err := shell.Address(c, d.flag)
		if err != nil {
			return nil, err
		}
		if address == "" {
			continue
		}
		l, err := new(net.ListenConfig).Listen(c.Context, "tcp", address)
		if err != nil {
			return nil, fmt.Errorf("command: serve --%s: %w", d.flag, err)
		}
		door, err := share.NewDoor(share.DoorConfig{Listener: l, Service: d.service, Open: a.Open, Log: log.Named("share")})
		if err != nil {
			return nil, err
		}
		doors = append(doors, door.Run)
	}
	return doors, nil
}
