package control

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/livefile"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

func userpassCommand() *cli.Command {
	return &cli.Command{
		Name:  "userpass",
		Usage: "say which agents a principal with --auth userpass:<file> lets in by a password",
		Subcommands: []*cli.Command{
			{
				Name: "add", Usage: "let an agent in by the password that standard input has", ArgsUsage: "NAME",
				Flags: []cli.Flag{usersFlag(), replaceFlag("upsert", "u")}, Action: addUser,
				Description: "Writes NAME and the bcrypt hash of the password to the file, which is made if need be. A\n" +
					"principal that runs reads it within seconds; an agent whose password is another then is cut\n" +
					"off until it says the new one.\n\n" +
					"   head -c 24 /dev/urandom | base64 > password\n" +
					"   argocd-agentctl userpass add edge-1 --file users < password\n" +
					"   echo \"edge-1:$(cat password)\" > edge-1.creds    # for the agent, with --creds userpass:edge-1.creds",
			},
			{
				Name: "remove", Usage: "let an agent in no more", ArgsUsage: "NAME",
				Flags: []cli.Flag{usersFlag()}, Action: removeUser,
				Description: "   argocd-agentctl userpass remove edge-1 --file users",
			},
			{
				Name: "list", Usage: "show who is let in",
				Flags: []cli.Flag{usersFlag(), outputFlag("table", "json", "yaml")}, Before: shell.NoArguments, Action: listUsers,
			},
		},
	}
}

func usersFlag() cli.Flag {
	return &cli.StringFlag{Name: "file", Usage: "the `file` that the principal's --auth userpass: names"}
}

// usersFile returns the file, and who is in it; nobody if it is not there.
func usersFile(c *cli.Context) (file string, users identity.Users, err error) {
	if file, err = shell.Needed(c, "file", "name the file that the principal's --auth userpass: names"); err != nil {
		return "", nil, err
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return file, identity.Users{}, nil
	}
	if err == nil {
		users, err = identity.ParseUsers(file, text)
	}
	return file, users, err
}

// agentArgument returns the agent that the command line names.
func agentArgument(c *cli.Context) (string, error) {
	name, err := shell.Argument(c, "the agent's name")
	if err != nil {
		return "", err
	}
	if err := identity.CheckName(name); err != nil {
		return "", &shell.UsageError{Where: "userpass " + c.Command.Name, What: err.Error(), Advice: "choose another name"}
	}
	return name, nil
}

func addUser(c *cli.Context) error {
	name, err := agentArgument(c)
	if err != nil {
		return err
	}
	file, users, err := usersFile(c)
	if err != nil {
		return err
	}
	if _, there := users[name]; there && !c.Bool("upsert") {
		return fmt.Errorf("%s is in %s already: --upsert gives it another password", name, file)
	}
	text, err := io.ReadAll(io.LimitReader(c.App.Reader, 1<<10))
	if err != nil {
		return fmt.Errorf("read the password from standard input: %w", err)
	}
	hash, err := identity.Hash(strings.TrimRight(string(text), "\r\n"))
	if err != nil {
		return &shell.UsageError{Where: "standard input", What: err.Error(), Advice: "give the password there, in one line"}
	}
	users[name] = hash
	return replaceUsers(c, file, users, "added "+name)
}

func removeUser(c *cli.Context) error {
	name, err := agentArgument(c)
	if err != nil {
		return err
	}
	file, users, err := usersFile(c)
	if err != nil {
		return err
	}
	if _, there := users[name]; !there {
		return fmt.Errorf("%s is not in %s: argocd-agentctl userpass list shows who is", name, file)
	}
	delete(users, name)
	return replaceUsers(c, file, users, "removed "+name)
}

func replaceUsers(c *cli.Context, file string, users identity.Users, did string) error {
	if err := livefile.Replace(file, users.Text()); err != nil {
		return err
	}
	_, err := fmt.Fprintln(c.App.Writer, did)
	return err
}

// A user is who is let in.
type user struct {
	Name string `json:"name"`
}

func listUsers(c *cli.Context) error {
	show, err := formOf(c, map[string]form{"table": func(w io.Writer, v any) error {
		t := newTable(w, "NAME")
		for _, u := range v.([]user) {
			t.row(u.Name)
		}
		return t.w.Flush()
	}})
	if err != nil {
		return err
	}
	_, users, err := usersFile(c)
	if err != nil {
		return err
	}
	rows := []user{}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		rows = append(rows, user{name})
	}
	return show(c.App.Writer, rows)
}
