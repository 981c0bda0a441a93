package command

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/check"
	"github.com/argocd-fabric/argocd-agent/deploy"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// An agentCheck is what the stages of an agent have in common.
type agentCheck struct {
	c     *cli.Context
	way   approach
	rules resource.Rules
	read  secrets
	open  newDialer
	heard *witness

	own     *identity.Credentials // from the stage of TLS on
	running bool                  // the agent runs here, and is connected
	met     *meeting              // nil before there is a session
}

func checkAgent(c *cli.Context) error {
	a := agentCheck{c: c, heard: &witness{}}
	dir, err := os.MkdirTemp("", "argocd-agent-check-")
	if err != nil {
		return fmt.Errorf("command: check agent: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := a.prepare(dir); err != nil {
		return err
	}
	defer a.close()
	return walk(c, []check.Stage{
		{Name: "dns", Try: a.way.dns},
		{Name: "tcp", Try: a.way.tcp},
		{Name: "tls", Try: a.tls},
		{Name: "identity", Try: a.identity},
		{Name: "version", Try: a.version},
		permitted(c, "deploy/agent", a.renamed(), a.rights),
		{Name: "first sync", Try: a.sync},
	})
}

// prepare reads flags as the agent does. What is kept on disk while it is looked is in dir, so
// that what an agent has is not touched.
func (a *agentCheck) prepare(dir string) (err error) {
	if a.rules, err = agentRules(a.c); err != nil {
		return err
	}
	if _, err = agentMappingOf(a.c, a.rules); err != nil {
		return err
	}
	for flag, value := range map[string]string{"nats-store-dir": dir, "state-dir": dir, "nats-monitor-listen": ""} {
		if err := a.c.Set(flag, value); err != nil {
			return fmt.Errorf("command: check agent: %w", err)
		}
	}
	carrier, err := agentTransport(a.c)
	if err != nil {
		return err
	}
	if a.open, err = agentTransports()[carrier](a.c, zap.New(a.heard)); err != nil {
		return err
	}
	a.way.flag = "--server-address, --server-port"
	if a.way.way, err = wayOf(a.c, standards()[carrier]); err != nil {
		return err
	}
	cluster, err := openCluster(a.c, resource.Agent, zap.NewNop())
	a.read = cluster.secrets
	return err
}

func (a *agentCheck) close() {
	if a.met != nil {
		a.met.close()
	}
}

// tls is a stage: whether this side has credentials, and the principal shows a certificate that
// is good by them.
func (a *agentCheck) tls(ctx context.Context) (string, error) {
	creds, err := credsOf(a.c)
	if err != nil {
		return "", err
	}
	read, err := agentTLS().reader(a.c, a.read, creds)
	if err != nil {
		return "", err
	}
	own, err := readCredentials(ctx, read)
	if err != nil {
		return "", &check.Failure{Err: err, Advice: "give the agent a certificate of the principal's CA: argocd-agentctl pki issue agent NAME --upsert, or agent reconfigure NAME --reissue"}
	}
	if a.own = own; own.Plain() {
		return "", check.Skipped("--creds header: it is in plaintext, to a proxy")
	}
	conn, err := a.shake(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close() // nothing was written
	return shown(conn), nil
}

// identity is a stage: whether the principal knows the agent by what it shows, and lets it in.
func (a *agentCheck) identity(ctx context.Context) (string, error) {
	name := agentName(a.c, a.own)
	if err := checkAgentName(a.c, a.own); err != nil {
		return "", err
	}
	said := "agent " + name
	if !a.own.Plain() {
		conn, err := a.shake(ctx)
		if err != nil {
			return "", err
		}
		err = accepted(ctx, conn)
		_ = conn.Close() // nothing was written
		if err != nil {
			return "", &check.Failure{Err: err, Advice: refusedAdvice(a.own)}
		}
		said = fmt.Sprintf("the principal takes what agent %s shows", name)
	}
	if a.c.Bool("no-session") {
		return said + "; whether it is registered was not looked at", nil
	}
	if port := a.c.Int("metrics-port"); port != 0 {
		if a.running, _ = connectedAt(ctx, port, name); a.running { // an agent that says nothing is none
			return said + ", and the agent that runs here is connected", nil
		}
	}
	var err error
	if a.met, err = meet(ctx, a.open, a.own, a.heard); err != nil {
		return "", err
	}
	return said + ", and lets it in", nil
}

// version is a stage: whether both sides speak a common version of the protocol.
func (a *agentCheck) version(context.Context) (string, error) {
	if a.met == nil {
		return "", a.sessionless()
	}
	return a.met.version()
}

// sync is a stage: whether what the principal has to say arrives.
func (a *agentCheck) sync(ctx context.Context) (string, error) {
	switch {
	case a.met != nil:
		return a.met.sync(ctx)
	case !a.running:
		return "", a.sessionless()
	}
	for {
		whole, err := inStepAt(ctx, a.c.Int("metrics-port"), agentName(a.c, a.own))
		if whole {
			return "the agent that runs here has all that the principal has to say", nil
		}
		if err == nil {
			err = pause(ctx)
		}
		if err != nil {
			return "", &check.Failure{Err: fmt.Errorf("the agent that runs here has not all that the principal has to say: %w", err), Advice: "see its log, and argocd-agentctl status on the control plane"}
		}
	}
}

// sessionless is why a stage that needs a session was skipped.
func (a *agentCheck) sessionless() error {
	if a.running {
		return check.Skipped("the agent that runs here is connected, and has found one")
	}
	return check.Skipped("--no-session")
}

// renamed says which Secrets that manifests name have other names here.
func (a *agentCheck) renamed() map[string]string {
	names := map[string]string{"argocd-agent-client-tls": a.c.String("tls-secret-name"), "argocd-agent-ca": a.c.String("root-ca-secret-name")}
	for secret, file := range map[string]string{"argocd-agent-client-tls": "tls-client-cert", "argocd-agent-ca": "root-ca-path"} {
		if a.c.String(file) != "" {
			names[secret] = ""
		}
	}
	return names
}

// rights returns what an agent that is started like this needs.
func (a *agentCheck) rights(context.Context) ([][]byte, error) {
	texts := [][]byte{deploy.Managed()}
	if a.rules.Mode == resource.Autonomous {
		texts[0] = deploy.Autonomous()
	}
	if a.c.String(namespacesFlag) != "" {
		texts = append(texts, deploy.Destination())
	}
	if a.c.Bool(createFlag) {
		texts = append(texts, deploy.CreateNamespace())
	}
	return texts, nil
}

// common says whether a peer speaks a version of the protocol that this side does.
func common(p transport.Presence, ours wire.Range) (string, error) {
	theirs := wire.Range{Oldest: p.Oldest, Newest: p.Newest}
	seen := fmt.Sprintf("the principal (%s) speaks %s, this side (%s) %s", cmp.Or(p.Version, "of no version"), theirs, version(), ours)
	if _, ok := ours.With(theirs); ok {
		return seen, nil
	}
	older := "principal"
	if theirs.Oldest > ours.Newest {
		older = "agent"
	}
	return "", &check.Failure{Err: fmt.Errorf("%w: %s", transport.ErrVersion, seen), Advice: "upgrade the " + older}
}
