package command

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/sync/project"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A mapping says, as flags do, which Applications are whose and where. The zero mapping is by
// namespace.
type mapping struct {
	destination bool
	namespaces  []string // patterns
}

const (
	destinationFlag = "destination-based-mapping"
	namespacesFlag  = "allowed-namespaces"
	createFlag      = "create-namespace"
)

func principalMapping(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.Bool(destinationFlag, "", "have an Application of a managed agent be one whose destination names the agent, in any allowed namespace; else it is one in the namespace of the agent's name. Agents need this flag, too"),
		f.List(namespacesFlag, "", "", "with --destination-based-mapping, the `namespaces` beside --namespace in which Applications are agents': with commas between, globs, or regular expressions between slashes"),
	}
}

func agentMapping(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.Bool(destinationFlag, "", "keep an Application in the namespace that it has on the control plane, and those of Argo CD's namespace there in --namespace: for a managed agent whose principal has this flag"),
		f.List(namespacesFlag, "", "", "with --destination-based-mapping, the `namespaces` beside --namespace in which Applications may be: with commas between, globs, or regular expressions between slashes"),
		f.Bool(createFlag, "", "make the namespace of an Application where it is not there; else the Application waits for it"),
	}
}

func mappingOf(c *cli.Context) (mapping, error) {
	m := mapping{destination: c.Bool(destinationFlag)}
	for _, pattern := range strings.Split(c.String(namespacesFlag), ",") {
		if pattern = strings.TrimSpace(pattern); pattern == "" {
			continue
		}
		if err := project.CheckNamespace(pattern); err != nil {
			return m, &shell.UsageError{
				Where: "--" + namespacesFlag, What: err.Error(), Advice: "write globs, or regular expressions between slashes, with commas between and none within",
			}
		}
		m.namespaces = append(m.namespaces, pattern)
	}
	if !m.destination && len(m.namespaces) > 0 {
		return m, &shell.UsageError{
			Where: "--" + namespacesFlag, What: "Applications are not in any other namespace than their agent's", Advice: "add --" + destinationFlag + ", or leave it out",
		}
	}
	return m, nil
}

// agentMappingOf is mappingOf for an agent that has these rules.
func agentMappingOf(c *cli.Context, r resource.Rules) (mapping, error) {
	m, err := mappingOf(c)
	if err != nil {
		return m, err
	}
	if m.destination && r.Mode != resource.Managed {
		return m, &shell.UsageError{
			Where: "--" + destinationFlag, What: "an autonomous agent's Applications are where they are written",
			Advice: "leave it out, or say --agent-mode managed if the agent is registered so",
		}
	}
	if !m.destination && c.Bool(createFlag) {
		return m, &shell.UsageError{
			Where: "--" + createFlag, What: "all Applications are in --namespace", Advice: "add --" + destinationFlag + ", or leave it out",
		}
	}
	return m, nil
}
