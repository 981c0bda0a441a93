package control

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
)

func approveCommand() *cli.Command {
	return &cli.Command{
		Name:      "approve-deletions",
		Usage:     "have an agent delete what it holds",
		ArgsUsage: "NAME",
		Flags:     principalFlags(&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask"}),
		Action:    approve,
		Description: "An agent holds deletions when so many originals are missing, without anybody having been\n" +
			"seen to delete them, that they may have been lost: the control plane was restored, or looks at\n" +
			"the wrong place. This shows the list and, once you agree, has the copies deleted. What they have\n" +
			"deployed stays. To keep the copies, make the originals again instead.\n\n" +
			"If nothing is held it says so, and ends with 0: what was asked for is the case. What has\n" +
			"changed between the list and your answer is not approved, and ends with 1.\n\n" +
			"   argocd-agentctl agent approve-deletions edge-1\n" +
			"   argocd-agentctl agent approve-deletions edge-1 --yes" + askHelp,
	}
}

func approve(c *cli.Context) error {
	p, a, err := agentOf(c)
	if err != nil {
		return err
	}
	if len(a.Held) == 0 {
		_, err = fmt.Fprintf(c.App.Writer, "nothing is held of agent %s\n", a.Name)
		return err
	}
	if err := showHeld(c.App.Writer, a); err != nil {
		return err
	}
	if sure, err := confirmed(c, fmt.Sprintf("delete these %d copies, and leave what they have deployed?", len(a.Held))); err != nil || !sure {
		return err
	}
	done, err := p.Approve(c.Context, a)
	if err != nil {
		return asked(c, err)
	}
	when := ""
	if !a.Connected {
		when = "; it is away, and carries them out once it is back"
	}
	_, err = fmt.Fprintf(c.App.Writer, "approved %d deletions of agent %s%s\n", len(done.Held), a.Name, when)
	return err
}

func showHeld(w io.Writer, a admin.Agent) error {
	t := newTable(w, "SIDE", "COPY", "OF")
	for _, h := range a.Held {
		t.row(h.Side, h.Key, h.UID)
	}
	return t.w.Flush()
}

// confirmed reports whether the user agrees, by a flag or on his terminal.
func confirmed(c *cli.Context, question string) (bool, error) {
	if c.Bool("yes") {
		return true, nil
	}
	unasked := &shell.UsageError{Where: "command line", What: "there is no terminal to ask at, and nothing was done", Advice: "add --yes"}
	if !isTerminal(c.App.Reader) {
		return false, unasked
	}
	fmt.Fprintf(c.App.Writer, "%s [y/N] ", question)
	answer, err := bufio.NewReader(c.App.Reader).ReadString('\n')
	if err != nil {
		return false, unasked
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	_, err = fmt.Fprintln(c.App.Writer, "nothing was done")
	return false, err
}

func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
