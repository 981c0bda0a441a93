package control

import (
	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/principal/admin"
)

func inspectCommand() *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "show everything that the principal knows of an agent",
		ArgsUsage: "NAME",
		Flags:     principalFlags(outputFlag("yaml", "json")),
		Action:    inspect,
		Description: "Shows how both sides stand, the names of the deletions that are held, and the dead letters.\n\n" +
			"   argocd-agentctl agent inspect edge-1" + askHelp,
	}
}

// An inspection is everything that is known of an agent.
type inspection struct {
	admin.Agent
	Letters []admin.Letter    `json:"letters"`
	Unread  map[string]string `json:"unread,omitempty"`
}

func inspect(c *cli.Context) error {
	show, err := formOf(c, nil)
	if err != nil {
		return err
	}
	p, a, err := agentOf(c)
	if err != nil {
		return err
	}
	letters, err := p.Letters(c.Context, a.Name)
	if err != nil {
		return asked(c, err)
	}
	return show(c.App.Writer, inspection{a, letters.Letters, letters.Unread})
}
