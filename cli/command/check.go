package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/argocd-fabric/argocd-agent/cli/check"
	"github.com/argocd-fabric/argocd-agent/cli/kube"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
)

// CheckCommand is for argocd-agentctl: it finds out why a principal and an agent do not come
// together, from the flags that the programs themselves are started with.
func CheckCommand() *cli.Command {
	principal, agent := principalCommand(), agentCommand()
	return &cli.Command{
		Name:  "check",
		Usage: "find out what is wrong with a connection",
		Subcommands: []*cli.Command{
			{
				Name:   "principal",
				Usage:  "walk the stages on the control plane's side",
				Flags:  append(principal.Flags, append(checkFlags(), &cli.StringSliceFlag{Name: "address", Action: shell.Checked("address", shell.EachGiven), Usage: "`host:port` by which agents reach the principal; may be repeated"})...),
				Before: principal.Before,
				Action: checkPrincipal,
				Description: "Give it what the principal is given: the same flags, variables and --config. It looks whether the\n" +
					"cluster can be reached, whether the rights of deploy/principal are there, whether the certificates\n" +
					"are good, whether each --address leads to the principal and is in its certificate and, where the\n" +
					"principal can be asked (--admin-listen), how its agents stand. It changes nothing, ends with 1 at the\n" +
					"first stage that fails, and says what to do.\n\n" +
					"   argocd-agentctl check principal --kubecontext hub --address hub.example.com:8443 --as system:serviceaccount:argocd:argocd-agent-principal",
			},
			{
				Name:   "agent",
				Usage:  "walk the stages on an agent's side",
				Flags:  append(agent.Flags, append(checkFlags(), &cli.BoolFlag{Name: "no-session", Usage: "do not connect as the agent"})...),
				Before: agent.Before,
				Action: checkAgent,
				Description: "Give it what the agent is given: the same flags, variables and --config. It walks DNS, TCP, TLS,\n" +
					"identity, version, permissions and first sync, ends with 1 at the first stage that fails, and says\n" +
					"what was seen and what to do. Nothing is written on the cluster, and nothing is said of it.\n\n" +
					"Whether the principal lets the agent in is found out by a session of its own, unless the agent runs\n" +
					"here and says at its /metrics that it is connected. An agent of that name that runs elsewhere loses\n" +
					"its session for a moment: --no-session leaves those stages out.\n\n" +
					"   argocd-agentctl check agent --kubecontext edge-1 --server-address hub.example.com --as system:serviceaccount:argocd:argocd-agent-agent\n" +
					"   argocd-agentctl check agent --config agent.yaml",
			},
		},
	}
}

func checkFlags() []cli.Flag {
	return []cli.Flag{
		&cli.DurationFlag{Name: "timeout", Value: 20 * time.Second, Action: shell.Checked("timeout", shell.Positive), Usage: "the `duration` that a stage may take"},
		&cli.StringFlag{Name: "as", Usage: "ask for the rights of this `user` of the cluster, such as system:serviceaccount:argocd:argocd-agent-agent; empty is who the kubeconfig says"},
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "the `form` of what is said: table, json, yaml"},
	}
}

// walk walks stages, and says how they ended.
func walk(c *cli.Context, stages []check.Stage) error {
	show, err := shell.Choice(c, "output", map[string]func(io.Writer, []check.Report) error{
		"table": check.Table,
		"json":  func(w io.Writer, r []check.Report) error { return shell.JSON(w, r) },
		"yaml": func(w io.Writer, r []check.Report) error {
			text, err := yaml.Marshal(r)
			if err == nil {
				_, err = w.Write(text)
			}
			return err
		},
	})
	if err != nil {
		return err
	}
	for i, s := range stages {
		stages[i].Try = func(ctx context.Context) (string, error) { return misused(s.Try(ctx)) }
	}
	reports, failed := check.Walk(c.Context, stages, c.Duration("timeout"))
	return errors.Join(show(c.App.Writer, reports), failed)
}

// misused has a flag that does not fit what a stage has seen fail that stage: more was done
// than to look at the command line.
func misused(seen string, err error) (string, error) {
	if usage := (*shell.UsageError)(nil); errors.As(err, &usage) {
		err = &check.Failure{Err: errors.New(usage.Where + ": " + usage.What), Advice: usage.Advice}
	}
	return seen, err
}

// asUser returns how to reach the cluster that flags name, as the user whose rights are asked for.
func asUser(c *cli.Context) (*rest.Config, error) {
	cfg, err := kube.ConnectBy(c, "kubeconfig", "kubecontext")
	if err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.Impersonate.UserName = c.String("as")
	cfg.QPS, cfg.Burst = float32(c.Int("kube-qps")), c.Int("kube-burst")
	return cfg, nil
}

// permitted is a stage: whether what manifests grant is granted. Objects that renamed names
// have other names here, or none.
func permitted(c *cli.Context, where string, renamed map[string]string, manifests func(context.Context) ([][]byte, error)) check.Stage {
	return check.Stage{Name: "permissions", Try: func(ctx context.Context) (string, error) {
		if c.String("backend") != "kubernetes" {
			return "", check.Skipped("there is no cluster: --backend " + c.String("backend"))
		}
		cfg, err := asUser(c)
		if err != nil {
			return "", err
		}
		texts, err := manifests(ctx)
		if err != nil {
			return "", err
		}
		all, err := kube.Rights(c.String("namespace"), texts...)
		if err != nil {
			return "", err
		}
		rights := all[:0]
		for _, r := range all {
			if name, other := renamed[r.Name]; other {
				if r.Name = name; name == "" {
					continue // it is a file
				}
			}
			rights = append(rights, r)
		}
		lacking, err := kube.Lacking(ctx, cfg, rights)
		switch {
		case err != nil:
			return "", &check.Failure{Err: err, Advice: "see that the API server can be reached, and that --kubeconfig and --kubecontext name it"}
		case len(lacking) > 0:
			more := ""
			if len(lacking) > 1 {
				more = fmt.Sprintf(", and %s more", shell.Count(len(lacking)-1, "right"))
			}
			return "", &check.Failure{Err: fmt.Errorf("%s may not %s%s", who(c), lacking[0], more), Advice: "kubectl apply -f " + where + "/rbac.yaml"}
		}
		return fmt.Sprintf("%s has all %s of %s", who(c), shell.Count(len(rights), "right"), where), nil
	}}
}

// who names the one whose rights are asked for.
func who(c *cli.Context) string {
	if user := c.String("as"); user != "" {
		return user
	}
	return "the user of the kubeconfig"
}
