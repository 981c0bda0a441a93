package command

import (
	"context"
	"slices"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/metrics"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
	"github.com/argocd-fabric/argocd-agent/principal/clusterinfo"
	"github.com/argocd-fabric/argocd-agent/proxy/token"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

func principalCommand() *cli.Command {
	f := shell.Flags("ARGOCD_PRINCIPAL_")
	flags, before := f.WithFile(slices.Concat(
		[]cli.Flag{
			f.String("namespace,n", "", "argocd", "the `namespace` of Argo CD and the principal on the control plane"),
			f.String("agents-file", "", "", "a YAML `file` that says which agents there are, in place of cluster Secrets"),
			f.String("blocklist-file", "", "", "a YAML `file` that says who is not let in, in place of a ConfigMap"),
			f.String("source-uid-mismatch-policy", "", "recreate", "the `policy` for a copy whose original was deleted and made anew: recreate (so is the copy) or upsert (it is changed in place)"),
			f.Bool("allow-spoke-roles", "", "let the projects of autonomous agents say who is in their roles (groups and tokens)"),
			f.Bool("sync-unscoped-repositories", "", "send repositories and credentials of no project to all managed agents; else they stay on the control plane"),
			f.String("nats-leaf-listen", "", ":7422", "the `address` to which agents connect, with --transport nats"),
			f.String("nats-client-listen", "", "", "the `address` to which agents connect that have --nats-mode client, with --transport nats, such as :4222; empty is off"),
			f.String("grpc-listen", "", ":8443", "the `address` to which agents connect, with --transport grpc; or unix:path, a socket to which a proxy does"),
			f.Bool("enable-websocket", "", "let agents come by websocket too to the --grpc-listen address, with --transport grpc"),
			f.String("nats-websocket-listen", "", "", "the `address` to which agents connect by websocket, with --transport nats, such as :8444; empty is off"),
			f.String("auth", "", "", "the `method` by which agents prove their names: mtls:subject:<regex> or mtls:uri:<regex>, which match the whole subject or a URI of the certificate, and whose group 1 is the name; or userpass:<file>, by passwords, see argocd-agentctl userpass; or spiffe:<regex>, as mtls:uri: by certificates and CAs of the SPIFFE Workload API; or header:<Header>:<regex>, by what a proxy says that does TLS before the principal; empty is the certificate's common name"),
			f.String("spiffe-endpoint-socket", "", "", "the `address` of the SPIFFE Workload API, as unix:///run/spire/sockets/agent.sock, with --auth spiffe:; empty is what SPIFFE_ENDPOINT_SOCKET says"),
			f.String("trusted-proxy-cidr", "", "", "the `CIDRs` from which proxies may say who an agent is, with --auth header: and beside this machine; with a comma between them"),
			f.String("tls-cert", "TLS_SERVER_CERT_PATH", "", "a `file` with the principal's certificate"),
			f.String("tls-key", "TLS_SERVER_KEY_PATH", "", "a `file` with its key"),
			f.String("root-ca-path", "TLS_SERVER_ROOT_CA_PATH", "", "a `file` with the CA of agents' certificates"),
			f.String("tls-secret-name", "", "argocd-agent-principal-tls", "the `name` of the Secret with certificate and key, where no file is given"),
			f.String("tls-ca-secret-name", "TLS_SERVER_ROOT_CA_SECRET_NAME", "argocd-agent-ca", "the `name` of the Secret with the CA, where no file is given"),
		},
		principalMapping(f), adminFlags(f), clusterFlags(f), tokenFlags(f), enrollFlags(f), resourceProxyFlags(f), redisProxyFlags(f), shareFlags(f), adapterFlags(f), natsFlags(f), kubernetesFlags(f), natsBackendFlags(f), programFlags(f, 8003, 8000),
	)...)
	return &cli.Command{
		Name:   "principal",
		Usage:  "run the principal, on the control plane",
		Flags:  flags,
		Before: before,
		Action: runPrincipal,
		Description: "Serves all registered agents, and keeps the control plane's Applications in step with\n" +
			"theirs.\n\n" +
			"   argocd-agent principal\n" +
			"   argocd-agent principal --kubeconfig hub.yaml --root-ca-path ca.crt --tls-cert principal.crt --tls-key principal.key",
	}
}

// hubParts are what a principal is made of, as flags say it. Nothing has reached out yet.
type hubParts struct {
	program  program
	desk     adminDesk
	clusters *clusterinfo.Writer
	redis    redisProxy
	sharing  sharing
	mismatch resource.Mismatch
	cluster  cluster
	own      identity.Renewal
	watch    func(context.Context) error // whom to keep out; nil is nobody
	hub      transport.Hub
	live     resourceProxy
	tokens   *token.Ring // by which Argo CD reaches agents' clusters; nil where there are none
	enroll   enrolment

	transports []string // by their names
}

func newHubParts(c *cli.Context, log *zap.Logger) (h hubParts, err error) {
	if h.program, err = newProgram(c, log); err != nil {
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
	if h.cluster, err = openCluster(c, resource.Principal, log); err != nil {
		return h, err
	}
	if h.own, err = principalTLS().open(c, h.cluster.secrets, method.Source, log); err != nil {
		return h, err
	}
	if h.watch, err = (porter{h.own.Credentials, h.cluster.blocked, log}).follow(c.Context); err != nil {
		return h, err
	}
	if h.tokens, err = openTokens(c, h.cluster, log); err != nil {
		return h, err
	}
	if h.live, err = openResourceProxy(c, h.cluster, h.tokens, log); err != nil {
		return h, err
	}
	if h.enroll, err = newEnrolment(c, h.cluster, h.tokens, log); err != nil {
		return h, err
	}
	h.hub, err = open(h.own.Credentials, method, h.enroll.met())
	return h, err
}

func runPrincipal(c *cli.Context) error {
	log, err := newLog(c, c.App.ErrWriter)
	if err != nil {
		return err
	}
	by, err := mappingOf(c)
	if err != nil {
		return err
	}
	h, err := newHubParts(c, log)
	if err != nil {
		return err
	}
	hub, store, err := hubFailpoints(h.hub, h.cluster.store)
	if err != nil {
		return err
	}
	watched := &warden{controllers: h.cluster.controllers, destination: by.destination, log: log}
	if err := watched.admit(c.Context, h.cluster.registry); err != nil {
		return err // nothing has been written yet
	}
	self, err := h.cluster.identity(c.Context)
	if err != nil {
		return err
	}
	key, err := sealKey(c.Context, h.cluster.keep, principalSeal)
	if err != nil {
		return err
	}
	if err := discardStale(c, h.transports, log); err != nil {
		return err
	}
	letters, err := openLedger(c, log)
	if err != nil {
		return err
	}
	defer letters.Close() // what it was given is on disk
	run, err := principal.New(principal.Config{
		Identity:    self,
		Hub:         hub,
		Store:       store,
		Registry:    h.cluster.registry,
		Mismatch:    h.mismatch,
		Key:         key,
		Namespace:   c.String("namespace"),
		Destination: by.destination,
		Allowed:     by.namespaces,
		SpokeRoles:  c.Bool("allow-spoke-roles"),
		Unscoped:    c.Bool("sync-unscoped-repositories"),
		Ledger:      letters,
		Tick:        h.program.tick,
		Stale:       c.Duration("stale-after"),
		Services:    h.sharing.services,
		Log:         log,
	})
	if err != nil {
		return err
	}
	if h.desk.server, err = admin.New(admin.Config{Principal: run, Log: log, Applicants: func() []admin.Applicant { return h.enroll.applicants(run) }}); err != nil {
		return err
	}
	live, counted, err := h.live.serve(run.Open, log)
	if err != nil {
		return err
	}
	redis, err := h.redis.open(c.Context, run, c.String("namespace"), log)
	if err != nil {
		return err
	}
	log.Info("principal starts", zap.String("identity", self), zap.String("version", version()))
	served := page{"metrics-port", h.program.metrics, metrics.Handler(hubMetrics(run, letters, h.hub, h.own.Credentials, watched.conflict.Load, counted, redis))}
	parts := []func(context.Context) error{h.cluster.run, h.own.Run, h.watch, h.desk.Run, served.Run, h.enroll.run, runRedis(redis), func(ctx context.Context) error {
		return watched.run(ctx, func() (names []string) {
			for _, a := range run.Agents() {
				names = append(names, a.Name)
			}
			return names
		})
	}}
	if h.tokens != nil {
		parts = append(parts, h.tokens.Run)
	}
	if h.clusters != nil {
		parts = append(parts, h.clusters.Run, func(ctx context.Context) error {
			return showClusters(ctx, run, h.clusters, c.String("resource-proxy-address"), log)
		})
	}
	return h.program.run(c.Context, run, append(parts, live...)...)
}

func mismatchPolicy(c *cli.Context) (resource.Mismatch, error) {
	return shell.Choice(c, "source-uid-mismatch-policy", map[string]resource.Mismatch{
		"recreate": resource.Recreate, "upsert": resource.Upsert,
	})
}
