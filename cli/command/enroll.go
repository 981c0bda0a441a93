package command

import (
	"context"
	"time"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/kubestore"
	"github.com/argocd-fabric/argocd-agent/cli/agentsfile"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
	"github.com/argocd-fabric/argocd-agent/principal/enroll"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// enrollFlags are those of a principal at which agents may ask to be registered.
func enrollFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.Bool(selfFlag, "", "keep agents that prove their names and are not registered waiting, for argocd-agentctl agent approve to register them"),
		f.String(approvalFlag, "", "required", "whether that needs `approval`: required, or none (whoever proves a name is registered at once; the principal needs rights for it, see deploy)"),
		f.List(labelFlag, "", "", "which labels such an agent may give its cluster Secret: `patterns` of key or key=value with a comma between them, as region,env=dev*; empty is none"),
	}
}

// An enrolment is where agents ask to be registered, and what keeps how Argo CD reaches the
// clusters of those that are. The zero one does neither.
type enrolment struct {
	desk        *enroll.Desk // nil: nobody is heard
	connections *connections // nil where there are no cluster Secrets
}

// newEnrolment returns the one of a hub, whose parts before it are there.
func newEnrolment(c *cli.Context, h hubParts, log *zap.Logger) (e enrolment, err error) {
	policy, err := enroll.ParsePolicy(c.String(labelFlag))
	if err != nil {
		return e, &shell.UsageError{Where: "--" + labelFlag, What: err.Error(), Advice: "write keys, or key=value, with commas between them"}
	}
	approved, err := shell.Choice(c, approvalFlag, map[string]bool{"required": true, "none": false})
	if err != nil {
		return e, err
	}
	if !approved && !c.Bool(selfFlag) {
		return e, &shell.UsageError{Where: "--" + approvalFlag, What: "no agent may ask to be registered", Advice: "add --" + selfFlag + ", or leave it out"}
	}
	if h.cluster.home != nil {
		kept, err := resourceProxyTLS().kept(c, h.cluster.secrets)
		if err != nil {
			return e, err
		}
		e.connections = &connections{home: h.cluster.home, ring: h.tokens, ca: kept.CA, renew: c.Bool(selfFlag), served: h.live.tokens != nil, log: log}
	}
	if !c.Bool(selfFlag) {
		return e, nil
	}
	cfg := enroll.Config{Policy: policy, Log: log}
	switch file := c.String("agents-file"); {
	case approved:
	case e.connections != nil:
		cfg.Register = registrar{e.connections, c.String("resource-proxy-address")}.register
	case file != "":
		cfg.Register = func(_ context.Context, a enroll.Candidate) error {
			return agentsfile.Add(file, backend.Agent{Name: a.Agent, Mode: a.Wish.Mode})
		}
	}
	e.desk, err = enroll.NewDesk(cfg)
	return e, err
}

// met returns what is told of strangers; nil is nobody.
func (e enrolment) met() strangers {
	if e.desk == nil {
		return nil
	}
	return func(s transport.Stranger) { e.desk.Meet(s, time.Now()) }
}

// applicants returns who waits: those that run does not serve by now.
func (e enrolment) applicants(run *principal.Principal) (all []admin.Applicant) {
	if e.desk == nil {
		return nil
	}
	for _, w := range e.desk.Waiting(time.Now()) {
		if _, err := run.Agent(w.Agent); err == nil {
			continue
		}
		a := admin.Applicant{Name: w.Agent, From: w.From, Dropped: w.Dropped, Since: w.Since, Last: w.Last, Problem: reason(w.Err)}
		if w.Wish != nil {
			a.Mode, a.Labels = w.Wish.Mode.String(), w.Wish.Labels
		}
		all = append(all, a)
	}
	return all
}

// run runs both until ctx is done, and returns its cause.
func (e enrolment) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if e.desk != nil {
		g.Go(func() error { return e.desk.Run(ctx) })
	}
	if e.connections != nil {
		g.Go(func() error { return e.connections.run(ctx) })
	}
	g.Go(func() error { <-ctx.Done(); return context.Cause(ctx) })
	return g.Wait()
}

// A registrar registers agents by cluster Secrets.
type registrar struct {
	connections *connections
	proxy       string // the address of the resource proxy
}

func (r registrar) register(ctx context.Context, c enroll.Candidate) error {
	connection, err := r.connections.fresh(ctx, c.Agent)
	if err != nil {
		return err
	}
	return r.connections.home.CreateAgent(ctx, kubestore.NewAgent{
		Agent: backend.Agent{Name: c.Agent, Mode: c.Wish.Mode}, Proxy: r.proxy, Connection: connection,
		Labels: c.Wish.Labels, SelfRegistered: true,
	})
}
