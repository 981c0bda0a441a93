package command

import (
	"context"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/metrics"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
	"github.com/argocd-fabric/argocd-agent/principal/clusterinfo"
	"github.com/argocd-fabric/argocd-agent/proxy/token"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// hubParts are what a principal is made of, as flags say it. Nothing has reached out yet.
type hubParts struct {
	program  program
	mapping  mapping
	desk     adminDesk
	clusters *clusterinfo.Writer
	redis    redisProxy
	sharing  sharing
	mismatch resource.Mismatch
	cluster  cluster
	own      identity.Renewal
	watch    func(context.Context) error // whom to keep out; nil is nobody
	hub      transport.Hub
	tokens   *token.Ring // by which Argo CD reaches agents' clusters
	live     resourceProxy
	enroll   enrolment
	papers   *papers

	transports []string // by their names
}

func newHubParts(c *cli.Context, log *zap.Logger) (h hubParts, err error) {
	h.papers = newPapers()
	if h.program, err = newProgram(c, log); err != nil {
		return h, err
	}
	if h.mapping, err = mappingOf(c); err != nil {
		return h, err
	}
	if h.desk, err = newAdminDesk(c); err != nil {
		return h, err
	}
	if h.clusters, err = clusterView(c, log); err != nil {
		return h, err
	}
	if h.redis, err = newRedisProxy(c); err != nil {
		return h, err
	}
	if h.sharing, err = newSharing(c, log); err != nil {
		return h, err
	}
	if h.mismatch, err = mismatchPolicy(c); err != nil {
		return h, err
	}
	if h.transports, err = principalTransports(c); err != nil {
		return h, err
	}
	open, err := openHubs(c, h.transports, log)
	if err != nil {
		return h, err
	}
	method, err := authOf(c)
	if err != nil {
		return h, err
	}
	if err := h.meet(c, method, log); err != nil {
		return h, err
	}
	method.Prove = h.papers.watch(method.Prove)
	h.hub, err = open(h.own.Credentials, method, h.papers.met(h.enroll.met()))
	return h, err
}

// meet opens what says who is who: the cluster, certificates, keys and whom to keep out.
func (h *hubParts) meet(c *cli.Context, method identity.Method, log *zap.Logger) (err error) {
	if h.cluster, err = openCluster(c, resource.Principal, log); err != nil {
		return err
	}
	if err := h.program.await(c.Context, h.cluster); err != nil {
		return err
	}
	if h.own, err = principalTLS().open(c, h.cluster.secrets, method.Source, log); err != nil {
		return err
	}
	if h.watch, err = (porter{h.own.Credentials, h.cluster.blocked, log}).follow(c.Context); err != nil {
		return err
	}
	if h.tokens, err = openTokens(c, h.cluster, log); err != nil {
		return err
	}
	if h.live, err = openResourceProxy(c, h.cluster, h.tokens, log); err != nil {
		return err
	}
	h.enroll, err = newEnrolment(c, *h, log)
	return err
}

// config returns what the principal is made of. From here on the disk and the cluster are
// written to. The Ledger is to be closed.
func (h hubParts) config(c *cli.Context, log *zap.Logger) (cfg principal.Config, err error) {
	cfg = principal.Config{
		Registry:    h.cluster.registry,
		Mismatch:    h.mismatch,
		Namespace:   c.String("namespace"),
		Destination: h.mapping.destination,
		Allowed:     h.mapping.namespaces,
		SpokeRoles:  c.Bool("allow-spoke-roles"),
		Unscoped:    c.Bool("sync-unscoped-repositories"),
		Tick:        h.program.tick,
		Stale:       c.Duration("stale-after"),
		Services:    h.sharing.services,
		Paces:       h.program.paces,
		Witness:     h.program.witness,
		Log:         log,
	}
	if cfg.Hub, cfg.Store, err = hubFailpoints(h.hub, h.cluster.store); err != nil {
		return cfg, err
	}
	if cfg.Identity, err = h.cluster.identity(c.Context); err != nil {
		return cfg, err
	}
	if cfg.Key, err = sealKey(c.Context, h.cluster.keep, principalSeal); err != nil {
		return cfg, err
	}
	if err := discardStale(c, h.transports, log); err != nil {
		return cfg, err
	}
	cfg.Ledger, err = openLedger(c, log)
	return cfg, err
}

// beside returns what runs beside a principal: what keeps its cluster and certificates known,
// answers its users, and serves live requests.
func (h hubParts) beside(c *cli.Context, run *principal.Principal, letters *ledger.Ledger, watched *warden, log *zap.Logger) (parts []func(context.Context) error, err error) {
	if h.desk.server, err = admin.New(admin.Config{
		Principal: run, Log: log, Self: h.self, Expires: h.papers.of,
		Applicants: func() []admin.Applicant { return h.enroll.applicants(run) },
	}); err != nil {
		return nil, err
	}
	live, counted, err := h.live.serve(run.Open, log)
	if err != nil {
		return nil, err
	}
	cache, err := h.redis.open(c.Context, run, c.String("namespace"), log)
	if err != nil {
		return nil, err
	}
	told := page{"metrics-port", h.program.metrics, metrics.Handler(h.metrics(run, letters, watched.conflict.Load, counted, cache))}
	parts = append(live, h.cluster.run, h.own.Run, h.watch, h.desk.Run, h.desk.server.Follow, told.Run, runRedis(cache), h.tokens.Run, h.enroll.run, func(ctx context.Context) error {
		return watched.run(ctx, func() []string { return names(run) })
	}, func(ctx context.Context) error {
		return h.papers.run(ctx, func() []string { return names(run) })
	})
	if h.clusters != nil {
		parts = append(parts, h.clusters.Run, func(ctx context.Context) error {
			return showClusters(ctx, run, h.clusters, c.String("resource-proxy-address"), log)
		})
	}
	return parts, nil
}

// names returns those of all agents.
func names(run *principal.Principal) (names []string) {
	for _, a := range run.Agents() {
		names = append(names, a.Name)
	}
	return names
}

// self says of this program what argocd-agentctl shows of it.
func (h hubParts) self() admin.Self {
	spoken := wire.Spoken()
	return admin.Self{Version: version(), Protocol: &admin.Protocol{Oldest: spoken.Oldest, Newest: spoken.Newest}, Expires: h.own.Credentials.Expiry()}
}
