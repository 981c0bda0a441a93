package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/kubestore"
	"github.com/argocd-fabric/argocd-agent/cli/agentsfile"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
)

// A roster is a registry of agents that can be changed. An agent that is not in it is
// fs.ErrNotExist.
type roster interface {
	// add adds an agent. How Argo CD reaches its cluster it finds out itself.
	add(c *cli.Context, a kubestore.NewAgent) error
	list(ctx context.Context) ([]backend.Agent, error)
	find(ctx context.Context, name string) (registration, error)
	remove(ctx context.Context, name string) error
	change(ctx context.Context, name string, c kubestore.Change) (registration, error)
	// renew gives Argo CD another token of an agent's.
	renew(c *cli.Context, name string) (registration, error)
}

// A registration is what a roster says of an agent.
type registration struct {
	Name   string    `json:"name"`
	Mode   string    `json:"mode"`
	Where  string    `json:"where"`            // the file, or the cluster Secret
	Since  time.Time `json:"since,omitzero"`   // when it was registered, if that is known
	Server string    `json:"server,omitempty"` // by which Argo CD knows its cluster
	// Connection is by what Argo CD is let to its cluster.
	Connection string            `json:"connection,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"` // of its cluster Secret, that are the user's
	Mapping    string            `json:"mapping"`          // where its Applications are, unless they are mapped by destination
}

func rosterFlags() []cli.Flag {
	return append([]cli.Flag{env.String("agents-file", "", "", "keep the agents in this YAML `file`, not in a cluster")}, hubClusterFlags()...)
}

func openRoster(c *cli.Context) (roster, error) {
	if file := c.String("agents-file"); file != "" {
		return rosterFile(file), nil
	}
	return openHome(c)
}

// registeredAs returns what the roster of the command's flags says of the agent that its
// argument names.
func registeredAs(c *cli.Context) (roster, registration, error) {
	name, err := shell.Argument(c, "the agent's name")
	if err != nil {
		return nil, registration{}, err
	}
	r, err := openRoster(c)
	if err != nil {
		return nil, registration{}, err
	}
	is, err := r.find(c.Context, name)
	return r, is, unknown(name, err)
}

// unknown says what to do about an agent that is not registered, if that is what is wrong.
func unknown(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("agent %q is not registered: argocd-agentctl agent list shows who is", name)
	}
	return err
}

// A rosterFile is a roster in a file.
type rosterFile string

func (f rosterFile) add(_ *cli.Context, a kubestore.NewAgent) error {
	return agentsfile.Add(string(f), a.Agent)
}

func (f rosterFile) list(context.Context) ([]backend.Agent, error) {
	return agentsfile.Read(string(f))
}

func (f rosterFile) find(_ context.Context, name string) (registration, error) {
	agents, err := agentsfile.Read(string(f))
	if err != nil {
		return registration{}, fmt.Errorf("control: agent %s: %w", name, noFile(err))
	}
	i := slices.IndexFunc(agents, func(a backend.Agent) bool { return a.Name == name })
	if i < 0 {
		return registration{}, fmt.Errorf("control: agent %s is not in %s: %w", name, f, fs.ErrNotExist)
	}
	return registration{Name: name, Mode: agents[i].Mode.String(), Where: string(f), Mapping: mapped(name)}, nil
}

func (f rosterFile) remove(_ context.Context, name string) error {
	return agentsfile.Remove(string(f), name)
}

func (f rosterFile) change(context.Context, string, kubestore.Change) (registration, error) {
	return registration{}, &shell.UsageError{Where: "--agents-file", What: "a file has neither labels nor the address of a resource proxy", Advice: "leave out --label and --resource-proxy-server"}
}

func (f rosterFile) renew(*cli.Context, string) (registration, error) {
	return registration{}, &shell.UsageError{Where: "--agents-file", What: "a file has no tokens", Advice: "leave out --reissue-token"}
}

// noFile keeps a file that is not there from being taken for an agent that is not.
func noFile(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New(err.Error())
	}
	return err
}

// A homeRoster is a roster of cluster Secrets.
type homeRoster struct {
	home   *kubestore.Home
	tokens tokens
	proxy  string
	adopt  bool
}

// openHome returns the roster of the control plane's cluster.
func openHome(c *cli.Context) (roster, error) {
	home, err := hubHome(c)
	if err != nil {
		return nil, err
	}
	t, err := openTokens(c)
	return homeRoster{home, t, c.String("resource-proxy-server"), c.Bool("adopt-namespace")}, err
}

func (h homeRoster) add(c *cli.Context, a kubestore.NewAgent) (err error) {
	if a.Connection, err = h.tokens.connect(c, a.Name); err != nil {
		return err
	}
	a.Proxy, a.AdoptNamespace = h.proxy, h.adopt
	return h.home.CreateAgent(c.Context, a)
}

func (h homeRoster) renew(c *cli.Context, name string) (registration, error) {
	connection, err := h.tokens.connect(c, name)
	if err != nil {
		return registration{}, err
	}
	r, err := h.home.ChangeAgent(c.Context, name, kubestore.Change{Connection: &connection})
	return h.registration(c.Context, r), err
}

func (h homeRoster) list(ctx context.Context) ([]backend.Agent, error) { return h.home.Agents(ctx) }

func (h homeRoster) find(ctx context.Context, name string) (registration, error) {
	r, err := h.home.Registration(ctx, name)
	return h.registration(ctx, r), err
}

func (h homeRoster) remove(ctx context.Context, name string) error {
	return h.home.DeleteAgent(ctx, name)
}

func (h homeRoster) change(ctx context.Context, name string, c kubestore.Change) (registration, error) {
	r, err := h.home.ChangeAgent(ctx, name, c)
	return h.registration(ctx, r), err
}

func (h homeRoster) registration(ctx context.Context, r kubestore.Registration) registration {
	return registration{
		Name: r.Name, Mode: r.Mode.String(), Where: "Secret " + r.Secret, Since: r.Since.UTC(), Server: r.Server,
		Connection: h.tokens.describe(ctx, r), Labels: r.Labels, Mapping: mapped(r.Name),
	}
}

// mapped says where on the control plane the Applications of an agent are.
func mapped(name string) string {
	return "namespace " + name + ", unless the principal maps by destination"
}
