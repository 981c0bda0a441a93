package command

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/kubeapis"
	"github.com/argocd-fabric/argocd-agent/cli/check"
	"github.com/argocd-fabric/argocd-agent/cli/kube"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/deploy"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// A principalCheck is what the stages of a principal have in common.
type principalCheck struct {
	c       *cli.Context
	ways    []approach
	cluster cluster
	leaf    tls.Certificate       // the principal's, from the stage of certificates on
	own     *identity.Credentials // the same, with the CA
	desk    *admin.Client         // nil before it has answered
	fleet   admin.Agents          // as it has answered last
}

func checkPrincipal(c *cli.Context) error {
	p := principalCheck{c: c}
	transports, err := principalTransports(c)
	if err != nil {
		return err
	}
	var flags []string
	for _, name := range transports {
		flags = append(flags, "--"+standards()[name].listen)
	}
	if c.String("nats-client-listen") != "" {
		flags = append(flags, "--"+standards()[natsClient].listen)
	}
	for _, address := range c.StringSlice("address") {
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
			return &shell.UsageError{Where: "--address", What: fmt.Sprintf("%q is no address", address), Advice: "write host:port, as agents are told"}
		}
		p.ways = append(p.ways, approach{way: way{address: address}, flag: strings.Join(flags, ", ")})
	}
	if p.cluster, err = openCluster(c, resource.Principal, zap.NewNop()); err != nil {
		return err
	}
	renamed := map[string]string{
		"argocd-agent-principal-tls": c.String("tls-secret-name"), "argocd-agent-ca": c.String("tls-ca-secret-name"),
		"argocd-agent-resource-proxy-tls": c.String("resource-proxy-secret-name"), "argocd-agent-jwt": c.String("jwt-secret-name"),
	}
	for secret, file := range map[string]string{
		"argocd-agent-principal-tls": "tls-cert", "argocd-agent-ca": "root-ca-path",
		"argocd-agent-resource-proxy-tls": "resource-proxy-cert-path", "argocd-agent-jwt": "jwt-key",
	} {
		if c.String(file) != "" || strings.HasPrefix(file, "resource-proxy") && !c.Bool(proxyFlag) {
			renamed[secret] = ""
		}
	}
	return walk(c, []check.Stage{
		{Name: "cluster", Try: p.reached},
		permitted(c, "deploy/principal", renamed, p.rights),
		{Name: "certificates", Try: p.certificates},
		{Name: "nats servers", Try: p.servers},
		{Name: "dns", Try: p.each(approach.dns)},
		{Name: "tcp", Try: p.each(approach.tcp)},
		{Name: "tls", Try: p.each(p.tls)},
		{Name: "principal", Try: p.ask},
		{Name: "identity", Try: p.identity},
		{Name: "first sync", Try: p.sync},
	})
}

// each is a stage: whether something is so of every address.
func (p *principalCheck) each(try func(approach, context.Context) (string, error)) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if len(p.ways) == 0 {
			return "", check.Skipped("no --address by which agents reach the principal is given")
		}
		var all []string
		for _, w := range p.ways {
			seen, err := try(w, ctx)
			if err != nil {
				return "", err
			}
			all = append(all, seen)
		}
		return strings.Join(all, "; "), nil
	}
}

// reached is a stage: whether the API server answers.
func (p *principalCheck) reached(ctx context.Context) (string, error) {
	if p.c.String("backend") != "kubernetes" {
		return "", check.Skipped("there is no cluster: --backend " + p.c.String("backend"))
	}
	cfg, err := kube.ConnectBy(p.c, "kubeconfig", "kubecontext")
	if err != nil {
		return "", err
	}
	cfg.Timeout = p.c.Duration("timeout")
	client, err := kubeapis.New(cfg, nil)
	if err != nil {
		return "", fmt.Errorf("command: check principal: %w", err)
	}
	v, err := client.Version(ctx)
	if err != nil {
		return "", &check.Failure{Err: err, Advice: "see that the API server can be reached, and that --kubeconfig and --kubecontext name it"}
	}
	return fmt.Sprintf("%s answers, of version %s", cfg.Host, v.GitVersion), nil
}

// rights returns what a principal of these agents needs.
func (p *principalCheck) rights(ctx context.Context) ([][]byte, error) {
	texts := [][]byte{deploy.Principal()}
	agents, err := listed(ctx, p.cluster.registry)
	if err != nil {
		return nil, &check.Failure{Err: err, Advice: "see that the agents can be listed: argocd-agentctl agent list"}
	}
	if slices.ContainsFunc(agents, func(a backend.Agent) bool { return a.Mode == resource.Autonomous }) {
		texts = append(texts, deploy.PrincipalOfAutonomous())
	}
	if p.c.Bool(selfFlag) && p.c.String(approvalFlag) == "none" {
		texts = append(texts, deploy.PrincipalRegistering())
	}
	return texts, nil
}

// plaintext is why there is no certificate to look at.
const plaintext = "--auth header: a proxy does TLS, and speaks to the principal in plaintext"

// certificates is a stage: whether the principal's certificate, its key and the CA are there,
// and good.
func (p *principalCheck) certificates(ctx context.Context) (string, error) {
	method, err := authOf(p.c)
	if err != nil {
		return "", err
	}
	read, err := principalTLS().reader(p.c, p.cluster.secrets, method.Source)
	if err != nil {
		return "", err
	}
	b, err := read(ctx)
	if err == nil && b.Plain {
		return "", check.Skipped(plaintext)
	}
	if err == nil {
		p.leaf, err = tls.X509KeyPair(b.Cert.PEM, b.Key.PEM)
	}
	hostless := false
	if err == nil {
		if hostless = nameless(p.leaf.Leaf); hostless {
			b.Peer = p.leaf.Leaf.URIs[0].String()
		}
		p.own, err = identity.NewCredentials(b, time.Now())
	}
	if err != nil {
		return "", &check.Failure{Err: err, Advice: "argocd-agentctl pki issue principal makes it anew, with --upsert"}
	}
	for _, w := range p.ways {
		if hostless {
			break
		}
		host, _, _ := net.SplitHostPort(w.address) // it was looked at
		if err := p.leaf.Leaf.VerifyHostname(host); err != nil {
			return "", &check.Failure{Err: err, Advice: "argocd-agentctl pki issue principal --upsert with --dns or --ip for every address"}
		}
	}
	return certified(p.leaf.Leaf), nil
}

// nameless reports whether a certificate is of no host, but of a SPIFFE ID, by which agents know
// the principal then.
func nameless(leaf *x509.Certificate) bool {
	return len(leaf.DNSNames)+len(leaf.IPAddresses) == 0 && len(leaf.URIs) == 1
}

// tls is a stage for an address: whether the principal is there, with the certificate that it
// should have.
func (p *principalCheck) tls(w approach, ctx context.Context) (string, error) {
	if p.own == nil {
		return "", check.Skipped(plaintext)
	}
	host, _, err := net.SplitHostPort(w.address)
	if err != nil {
		return "", err
	}
	conn, err := w.handshake(ctx, p.own.Client(host)) // what this side shows is no agent's, and is looked at after the handshake
	if err != nil {
		return "", err
	}
	defer conn.Close() // nothing was written
	if !bytes.Equal(conn.ConnectionState().PeerCertificates[0].Raw, p.leaf.Certificate[0]) {
		return "", &check.Failure{
			Err:    fmt.Errorf("%s shows another certificate than the principal is given: %s", w.address, certified(conn.ConnectionState().PeerCertificates[0])),
			Advice: "see that it is this principal; one that has not read the certificate anew within seconds says why in its log",
		}
	}
	return w.address + ": " + shown(conn), nil
}

// ask is a stage: whether the principal runs, and says how its agents stand.
func (p *principalCheck) ask(ctx context.Context) (string, error) {
	listen := p.c.String("admin-listen")
	if listen == "" {
		return "", check.Skipped("--admin-listen is off")
	}
	if !strings.HasPrefix(listen, admin.Unix) {
		listen = "http://" + listen
	}
	client, err := admin.NewClient(listen)
	if err != nil {
		return "", &shell.UsageError{Where: "--admin-listen", What: err.Error(), Advice: "write 127.0.0.1:port or unix:///path"}
	}
	if p.fleet, err = client.Agents(ctx); err != nil {
		return "", &check.Failure{Err: err, Advice: "start the principal, or run this where it runs, or forward its port: kubectl -n argocd port-forward deployment/argocd-agent-principal 8404"}
	}
	p.desk = client
	return "it answers at " + listen, nil
}

// identity is a stage: whether the principal serves the agents that are registered. It waits
// for one that has only begun.
func (p *principalCheck) identity(ctx context.Context) (string, error) {
	if p.desk == nil {
		return "", check.Skipped("--admin-listen is off")
	}
	agents, err := listed(ctx, p.cluster.registry)
	if err != nil {
		return "", err
	}
	if len(agents) == 0 {
		return "", &check.Failure{Err: errors.New("no agent is registered"), Advice: "argocd-agentctl agent create NAME registers one"}
	}
	for {
		failed := unserved(agents, p.fleet)
		if failed == nil {
			return "it serves all that are registered: " + shell.Count(len(agents), "agent"), nil
		}
		if p.again(ctx) != nil {
			return "", failed
		}
	}
}

// again asks the principal again, after a while.
func (p *principalCheck) again(ctx context.Context) (err error) {
	if err = pause(ctx); err == nil {
		p.fleet, err = p.desk.Agents(ctx)
	}
	return err
}

// unserved returns which of the registered agents is not served as it should be.
func unserved(registered []backend.Agent, all admin.Agents) error {
	for _, a := range registered {
		i := slices.IndexFunc(all.Agents, func(f admin.Agent) bool { return f.Name == a.Name })
		switch {
		case i < 0:
			return &check.Failure{Err: fmt.Errorf("agent %s is registered, and the principal does not serve it", a.Name), Advice: "see that the principal looks in the same place (--namespace, --agents-file), and its log"}
		case all.Agents[i].Error != "":
			return &check.Failure{Err: fmt.Errorf("agent %s: %s", a.Name, all.Agents[i].Error), Advice: "see the principal's log, and argocd-agentctl agent inspect " + a.Name}
		}
	}
	return nil
}

// sync is a stage: whether the agents are there, and in step. It waits for those that are not
// yet in step.
func (p *principalCheck) sync(ctx context.Context) (string, error) {
	if p.desk == nil {
		return "", check.Skipped("--admin-listen is off")
	}
	for {
		away, behind := standing(p.fleet)
		switch {
		case len(away) > 0:
			return "", &check.Failure{Err: fmt.Errorf("not connected: %s", strings.Join(away, ", ")), Advice: "run argocd-agentctl check agent where it runs"}
		case len(behind) == 0:
			return "connected and in step: " + shell.Count(len(p.fleet.Agents), "agent"), nil
		}
		if late := p.again(ctx); late != nil {
			return "", &check.Failure{Err: fmt.Errorf("not in step: %s: %w", strings.Join(behind, ", "), late), Advice: "argocd-agentctl verify says in what they differ"}
		}
	}
}

// standing returns which agents are not connected, and which of the others are not in step.
func standing(all admin.Agents) (away, behind []string) {
	for _, a := range all.Agents {
		switch {
		case !a.Connected:
			away = append(away, a.Name)
		case !a.Hub.InStep || a.Spoke == nil || !a.Spoke.InStep:
			behind = append(behind, a.Name)
		}
	}
	return away, behind
}

// pause waits before something is asked again, or returns why there is no time to.
func pause(ctx context.Context) error {
	t := time.NewTimer(200 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
