package command

import (
	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal/enroll"
)

const (
	selfFlag     = "enable-self-cluster-registration"
	approvalFlag = "self-registration-approval"
	labelFlag    = "self-registration-label"
)

// wishFlags are those of an agent that asks to be registered.
func wishFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.Bool(selfFlag, "", "ask the principal to register this agent, with its --agent-mode, if it does not know it; see --enable-self-cluster-registration of the principal"),
		f.List(labelFlag, "", "", "`labels` for the cluster Secret of an agent that asks so, as region=north,tier=1; the principal says which it may have"),
	}
}

// wishOf returns what an agent says to a principal that does not know it, "" if that is nothing.
func wishOf(c *cli.Context) (string, error) {
	text := c.String(labelFlag)
	if !c.Bool(selfFlag) {
		if text != "" {
			return "", &shell.UsageError{Where: "--" + labelFlag, What: "nobody is asked to register this agent", Advice: "add --" + selfFlag + ", or leave it out"}
		}
		return "", nil
	}
	rules, err := agentRules(c)
	if err != nil {
		return "", err
	}
	wish := enroll.Wish{Mode: rules.Mode}
	if text != "" {
		if wish.Labels, err = enroll.ParseLabels(shell.List(text)); err != nil {
			return "", &shell.UsageError{Where: "--" + labelFlag, What: err.Error(), Advice: "write key=value, several with a comma between them"}
		}
	}
	said, err := wish.Text()
	if err != nil {
		return "", &shell.UsageError{Where: "--" + labelFlag, What: err.Error(), Advice: "give fewer labels"}
	}
	return said, nil
}
