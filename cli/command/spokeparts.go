package command

import (
	"context"
	"slices"
	"time"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/agent"
	"github.com/argocd-fabric/argocd-agent/cli/metrics"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/seal"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// spokeParts are what an agent is made of, as flags say it. Nothing has reached out yet.
type spokeParts struct {
	program program
	rules   resource.Rules
	mapping mapping
	expiry  time.Duration
	carrier string // by its name
	cluster cluster
	live    spokeProxy
	own     identity.Renewal
	dialer  transport.Dialer
	listed  func(context.Context) error // follows what may be read from Redis; nil is nothing
	key     seal.Key
}

func newSpokeParts(c *cli.Context, log *zap.Logger) (s spokeParts, err error) {
	if s.program, err = newProgram(c, log); err != nil {
		return s, err
	}
	if s.rules, err = agentRules(c); err != nil {
		return s, err
	}
	if s.mapping, err = agentMappingOf(c, s.rules); err != nil {
		return s, err
	}
	terms, err := liveTerms(c, s.rules)
	if err != nil {
		return s, err
	}
	s.expiry = c.Duration("operation-expiry")
	if s.carrier, err = agentTransport(c); err != nil {
		return s, err
	}
	open, err := agentTransports()[s.carrier](c, log)
	if err != nil {
		return s, err
	}
	creds, err := credsOf(c)
	if err != nil {
		return s, err
	}
	if s.cluster, err = openCluster(c, resource.Agent, log); err != nil {
		return s, err
	}
	if err := s.program.await(c.Context, s.cluster); err != nil {
		return s, err
	}
	if s.live, err = openSpokeProxy(c, s.cluster, terms, log); err != nil {
		return s, err
	}
	if s.own, err = agentTLS().open(c, s.cluster.secrets, creds, log); err != nil {
		return s, err
	}
	if err := checkAgentName(c, s.own.Credentials); err != nil {
		return s, err
	}
	s.dialer, err = open(s.own.Credentials)
	return s, err
}

// settle sees to what is kept: from here on the disk and the cluster are written to. What it
// returns is to be closed.
func (s *spokeParts) settle(c *cli.Context, log *zap.Logger) (_ *ledger.Ledger, err error) {
	keep := s.cluster.keep
	if c.Bool("observe") {
		keep = look(keep)
	}
	if slices.ContainsFunc(s.rules.Kinds(), resource.Kind.Sealed) {
		if s.key, err = sealKey(c.Context, keep, agentSeal); err != nil {
			return nil, err
		}
	}
	if err := discardStale(c, []string{s.carrier}, log); err != nil {
		return nil, err
	}
	return openLedger(c, log)
}

// config returns what the agent is made of.
func (s *spokeParts) config(c *cli.Context, letters *ledger.Ledger, log *zap.Logger) (cfg agent.Config, err error) {
	cfg = agent.Config{
		Name:        agentName(c, s.own.Credentials),
		Namespace:   c.String("namespace"),
		Destination: s.mapping.destination,
		Allowed:     s.mapping.namespaces,
		Rules:       s.rules,
		Expiry:      s.expiry,
		Tick:        s.program.tick,
		Key:         s.key,
		Letters:     letters.Book("principal"),
		Paces:       s.program.paces,
		Cluster:     s.cluster.served,
		Witness:     s.program.witness(agentName(c, s.own.Credentials)),
		Log:         log,
	}
	if cfg.Dialer, cfg.Store, err = agentFailpoints(s.dialer, s.cluster.store); err != nil {
		return cfg, err
	}
	if cfg.Adopted, err = adoptions(c, letters); err != nil {
		log.Warn("what is adopted cannot be kept on disk", zap.Error(err))
	}
	if cfg.Adopted != nil {
		log.Info("nothing is written on this cluster but what is adopted: see argocd-agentctl plan", zap.Int("adopted", len(cfg.Adopted.All())))
	}
	place := agent.Placement{Namespace: cfg.Namespace, Destination: cfg.Destination, Allowed: cfg.Allowed}
	redis, listed, err := spokeRedis(c, place, cfg.Store, log)
	s.listed, cfg.Services = listed, allServices(s.live.services(), redis)
	return cfg, err
}

// beside returns what runs beside an agent: what keeps its certificate and cluster known, tells
// of it, and serves live requests.
func (s *spokeParts) beside(c *cli.Context, run *agent.Agent, book *ledger.Book, log *zap.Logger) ([]func(context.Context) error, error) {
	doors, err := sharedDoors(c, run, log)
	if err != nil {
		return nil, err
	}
	name := agentName(c, s.own.Credentials)
	told := page{"metrics-port", s.program.metrics, metrics.Handler(agentMetrics(name, run, book, s.dialer, s.own.Credentials, s.program.paces, s.live.counted()))}
	return append(doors, s.listed, s.cluster.run, s.own.Run, s.live.run(), told.Run), nil
}
