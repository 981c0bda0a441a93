package command

import (
	"slices"
	"time"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/agent"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func agentCommand() *cli.Command {
	f := shell.Flags("ARGOCD_AGENT_")
	flags, before := f.WithFile(slices.Concat(
		[]cli.Flag{
			f.String("agent-name", "NAME", "", "the agent's `name`; empty is the common name of its certificate, or the one that --creds says"),
			f.String("agent-mode", "MODE", "autonomous", "the `mode` in which the agent was registered: managed (Applications are written on the control plane) or autonomous (here); argocd-agentctl agent create registers managed ones by default"),
			f.String("namespace,n", "", "argocd", "the `namespace` of Argo CD and the agent on this cluster"),
			f.String("adoption-policy", "", "always", "the `policy` for an Application that is here already when the control plane has one of its name: always (it is taken over) or never"),
			f.String("source-uid-mismatch-policy", "", "recreate", "the `policy` for a copy whose original was deleted and made anew: recreate (so is the copy) or upsert (it is changed in place)"),
			f.String("on-application-recreate", "", "ignore", "the `policy` for a copy that somebody here has deleted, and that is made again: ignore (it begins anew), clear-status (so does its status; here it always does) or resync (besides, it is synced once)"),
			f.Bool("observe", "", "join a cluster without touching it: nothing is written on it but what is adopted; see argocd-agentctl plan and adopt"),
			f.Duration("operation-expiry", "", 24*time.Hour, shell.NotNegative, "how old a sync asked for on the control plane may be for the agent to begin it, a `duration`; an older one ends as failed; 0 is any age"),
			f.String("creds", "", "", "the `method` by which the agent proves its name: userpass:<file>, in whose first line are its name and a password, with a colon between; or spiffe:<ID>, by a certificate of the SPIFFE Workload API to the principal that has this SPIFFE ID; or header:, in plaintext to a proxy that does TLS and says who it is; empty is by its certificate"),
			f.String("spiffe-endpoint-socket", "", "", "the `address` of the SPIFFE Workload API, as unix:///run/spire/sockets/agent.sock, with --creds spiffe:; empty is what SPIFFE_ENDPOINT_SOCKET says"),
			f.String("tls-client-cert", "TLS_CLIENT_CERT_PATH", "", "a `file` with the agent's certificate"),
			f.String("tls-client-key", "TLS_CLIENT_KEY_PATH", "", "a `file` with its key"),
			f.String("root-ca-path", "TLS_ROOT_CA_PATH", "", "a `file` with the CA of the principal's certificate"),
			f.String("tls-secret-name", "", "argocd-agent-client-tls", "the `name` of the Secret with certificate and key, where no file is given"),
			f.String("root-ca-secret-name", "TLS_ROOT_CA_SECRET_NAME", "argocd-agent-ca", "the `name` of the Secret with the CA, where no file is given"),
		},
		wayFlags(f), wishFlags(f), agentMapping(f), spokeProxyFlags(f), liveFlags(f), spokeRedisFlags(f), sharedFlags(f), adapterFlags(f), natsFlags(f), kubernetesFlags(f), natsBackendFlags(f), programFlags(f, 8002, 8181),
	)...)
	return &cli.Command{
		Name:   "agent",
		Usage:  "run an agent, on a workload cluster",
		Flags:  flags,
		Before: before,
		Action: untilEnded(runAgent),
		Description: "Connects to the principal, whenever it is in reach, and keeps the Applications of one\n" +
			"namespace, or of several, in step with the control plane's.\n\n" +
			"   argocd-agent agent --agent-mode managed --server-address hub.example.com",
	}
}

func runAgent(c *cli.Context, log *zap.Logger) error {
	s, err := newSpokeParts(c, log)
	if err != nil {
		return err
	}
	letters, err := s.settle(c, log)
	if err != nil {
		return err
	}
	defer letters.Close() // what it was given is on disk
	cfg, err := s.config(c, letters, log)
	if err != nil {
		return err
	}
	run, err := agent.New(cfg)
	if err != nil {
		return err
	}
	beside, err := s.beside(c, run, cfg.Letters, log)
	if err != nil {
		return err
	}
	log.Info("agent starts", zap.String("agent", cfg.Name), zap.Stringer("mode", cfg.Rules.Mode), zap.String("version", version()))
	return s.program.run(c.Context, run, s.cluster.remote, beside...)
}

func agentRules(c *cli.Context) (r resource.Rules, err error) {
	if r.Mode, err = shell.Choice(c, "agent-mode", map[string]resource.Mode{
		"managed": resource.Managed, "autonomous": resource.Autonomous,
	}); err != nil {
		return r, err
	}
	if r.Adopt, err = shell.Choice(c, "adoption-policy", map[string]bool{"always": true, "never": false}); err != nil {
		return r, err
	}
	if r.Recreate, err = shell.Choice(c, "on-application-recreate", map[string]resource.Recreation{
		"ignore": resource.Ignored, "clear-status": resource.Cleared, "resync": resource.Resynced,
	}); err != nil {
		return r, err
	}
	r.Mismatch, err = mismatchPolicy(c)
	return r, err
}
