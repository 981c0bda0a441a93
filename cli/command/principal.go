package command

import (
	"slices"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
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
			f.List("trusted-proxy-cidr", "", "", "the `CIDRs` from which proxies may say who an agent is, with --auth header: and beside this machine; with a comma between them"),
			f.String("tls-cert", "TLS_SERVER_CERT_PATH", "", "a `file` with the principal's certificate"),
			f.String("tls-key", "TLS_SERVER_KEY_PATH", "", "a `file` with its key"),
			f.String("root-ca-path", "TLS_SERVER_ROOT_CA_PATH", "", "a `file` with the CA of agents' certificates"),
			f.String("tls-secret-name", "", "argocd-agent-principal-tls", "the `name` of the Secret with certificate and key, where no file is given"),
			f.String("tls-ca-secret-name", "TLS_SERVER_ROOT_CA_SECRET_NAME", "argocd-agent-ca", "the `name` of the Secret with the CA, where no file is given"),
		},
		principalMapping(f), adminFlags(f), clusterFlags(f), tokenFlags(f), enrollFlags(f), resourceProxyFlags(f), redisProxyFlags(f), shareFlags(f), adapterFlags(f), natsFlags(f), natsClusterFlags(f), kubernetesFlags(f), natsBackendFlags(f), programFlags(f, 8003, 8000),
	)...)
	return &cli.Command{
		Name:   "principal",
		Usage:  "run the principal, on the control plane",
		Flags:  flags,
		Before: before,
		Action: untilEnded(runPrincipal),
		Description: "Serves all registered agents, and keeps the control plane's Applications in step with\n" +
			"theirs.\n\n" +
			"   argocd-agent principal\n" +
			"   argocd-agent principal --kubeconfig hub.yaml --root-ca-path ca.crt --tls-cert principal.crt --tls-key principal.key",
	}
}

func runPrincipal(c *cli.Context, log *zap.Logger) error {
	h, err := newHubParts(c, log)
	if err != nil {
		return err
	}
	watched := &warden{controllers: h.cluster.controllers, destination: h.mapping.destination, log: log}
	if err := watched.admit(c.Context, h.cluster.registry); err != nil {
		return err // nothing has been written yet
	}
	cfg, err := h.config(c, log)
	if err != nil {
		return err
	}
	defer cfg.Ledger.Close() // what it was given is on disk
	run, err := principal.New(cfg)
	if err != nil {
		return err
	}
	beside, err := h.beside(c, run, cfg.Ledger, watched, log)
	if err != nil {
		return err
	}
	log.Info("principal starts", zap.String("identity", cfg.Identity), zap.String("version", version()))
	return h.program.run(c.Context, run, h.cluster.remote, beside...)
}

func mismatchPolicy(c *cli.Context) (resource.Mismatch, error) {
	return shell.Choice(c, "source-uid-mismatch-policy", map[string]resource.Mismatch{
		"recreate": resource.Recreate, "upsert": resource.Upsert,
	})
}
