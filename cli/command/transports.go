package command

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/grpclink"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/multihub"
	"github.com/argocd-fabric/argocd-agent/transport/natslink"
)

// The tables of transports. Each value of --transport is a row in them, and nothing else. An end
// of a transport is made of credentials, which are read only once its flags are known to be right.
type (
	newHub    func(*identity.Credentials, identity.Method, strangers) (transport.Hub, error)
	newDialer func(*identity.Credentials) (transport.Dialer, error)
)

// strangers are told of whoever proves a name and is not registered; nil is nobody.
type strangers func(transport.Stranger)

func hubTransports() map[string]func(*cli.Context, *zap.Logger) (newHub, error) {
	return map[string]func(*cli.Context, *zap.Logger) (newHub, error){"nats": natsHub, "grpc": grpcHub}
}

func agentTransports() map[string]func(*cli.Context, *zap.Logger) (newDialer, error) {
	return map[string]func(*cli.Context, *zap.Logger) (newDialer, error){"nats": natsLeaf, natsClient: natsThin, "grpc": grpcDialer}
}

// natsClient is the row of agents over NATS that run no server of their own.
const natsClient = "nats-client"

// agentTransport returns which row an agent's end is, by flags.
func agentTransport(c *cli.Context) (string, error) {
	mode, err := shell.Choice(c, "nats-mode", map[string]string{"leaf": "nats", "client": natsClient})
	if err != nil {
		return "", err
	}
	name, err := shell.Choice(c, "transport", map[string]string{"nats": mode, "grpc": "grpc"})
	if err == nil && name != mode && mode == natsClient {
		err = &shell.UsageError{Where: "--nats-mode", What: "client is a way to speak NATS, and the transport is " + name, Advice: "leave it out, or write --transport nats"}
	}
	return name, err
}

// keepingFirst are the transports in the order in which agents are looked for on them: those come
// first that keep more.
var keepingFirst = []string{"nats", "grpc"}

// discards removes what a transport has kept on this side's disk.
func discards() map[string]func(*cli.Context, *zap.Logger) error {
	return map[string]func(*cli.Context, *zap.Logger) error{
		"nats":     func(c *cli.Context, _ *zap.Logger) error { return natslink.Discard(c.String("nats-store-dir")) },
		natsURL:    discardElsewhere,
		natsClient: func(c *cli.Context, _ *zap.Logger) error { return natslink.DiscardCopy(stateDir(c)) },
		"grpc":     func(c *cli.Context, _ *zap.Logger) error { return grpclink.Discard(stateDir(c)) },
	}
}

// principalTransports returns the transports that the principal is to serve, in order.
func principalTransports(c *cli.Context) ([]string, error) {
	bad := func(what string) error {
		return &shell.UsageError{Where: "--transport", What: what, Advice: "write one of " + strings.Join(slices.Sorted(maps.Keys(hubTransports())), ", ") + ", or several with a comma between them"}
	}
	names := shell.List(c.String("transport"))
	if len(names) == 0 {
		return nil, bad("none is given")
	}
	for _, name := range names {
		if hubTransports()[name] == nil {
			return nil, bad(fmt.Sprintf("%q is none of its values", name))
		}
	}
	slices.SortFunc(names, func(a, b string) int { return slices.Index(keepingFirst, a) - slices.Index(keepingFirst, b) })
	return names, nil
}

// listenApart refuses a flag by which agents would be listened for on a transport that is not
// served, and two that name one address.
func listenApart(c *cli.Context, names []string) error {
	bad := func(flag, what, advice string) error {
		return &shell.UsageError{Where: "--" + flag, What: what, Advice: advice}
	}
	switch nats, grpc := slices.Contains(names, "nats"), slices.Contains(names, "grpc"); {
	case c.Bool("enable-websocket") && !grpc:
		return bad("enable-websocket", "gRPC is not served", "write --nats-websocket-listen :8444 for agents over NATS, or add grpc to --transport")
	case c.String("nats-client-listen") != "" && !nats:
		return bad("nats-client-listen", "NATS is not served", "leave it out, or add nats to --transport")
	case c.String(natsURL) != "" && !nats:
		return bad(natsURL, "NATS is not served", "leave it out, or add nats to --transport")
	case c.String("nats-websocket-listen") != "" && !nats:
		return bad("nats-websocket-listen", "NATS is not served", "write --enable-websocket for agents over gRPC, or add nats to --transport")
	}
	taken := map[string]string{}
	for _, name := range names {
		if name == "nats" && c.String(natsURL) != "" {
			continue
		}
		for _, flag := range listens(name) {
			at := c.String(flag)
			if other := taken[at]; other != "" && other != flag && !strings.HasSuffix(at, ":0") {
				return bad(flag, at+" is that of --"+other, "choose another for one of them")
			}
			if at != "" {
				taken[at] = flag
			}
		}
	}
	return nil
}

// listens returns the flags that say where agents are listened for on a transport; some are of
// several kinds of agents.
func listens(name string) []string {
	flags := []string{standards()[name].listen, standards()[name].websocketListen}
	if name == "nats" {
		flags = append(flags, standards()[natsClient].listen)
	}
	return flags
}

// openHubs returns what makes the principal's end of its transports: of several, one that has an
// agent go from one to another.
func openHubs(c *cli.Context, names []string, log *zap.Logger) (newHub, error) {
	if err := listenApart(c, names); err != nil {
		return nil, err
	}
	var opens []newHub
	for _, name := range names {
		open, err := hubTransports()[name](c, log)
		if err != nil {
			return nil, err
		}
		opens = append(opens, open)
	}
	if len(opens) == 1 {
		return opens[0], nil
	}
	return func(own *identity.Credentials, method identity.Method, met strangers) (transport.Hub, error) {
		cfg := multihub.Config{Path: filepath.Join(stateDir(c), "agent-transports.db"), Log: log}
		for i, open := range opens {
			hub, err := open(own, method, met)
			if err != nil {
				return nil, err
			}
			cfg.Carriers = append(cfg.Carriers, multihub.Carrier{Name: names[i], Hub: hub})
		}
		return multihub.New(cfg)
	}, nil
}

// lastTransports is the file in --state-dir that says which transports the program ran on last.
const lastTransports = "transport"

// discardStale removes what a transport has kept that was not in use when this program ran last:
// it speaks of the past, and would be believed until the other side answers. Then it notes which
// are in use now. Where it is not known what was in use, all stays. Servers of NATS elsewhere keep
// apart from what this program keeps itself.
func discardStale(c *cli.Context, names []string, log *zap.Logger) error {
	path := filepath.Join(stateDir(c), lastTransports)
	text, err := os.ReadFile(path)
	unknown := err
	if c.String(natsURL) != "" {
		names = slices.Clone(names)
		for i := range names {
			names[i] = strings.Replace(names[i], "nats", natsURL, 1)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		unknown = nil
	}
	now := strings.Join(names, ",")
	last := strings.TrimSpace(string(text))
	if last == now {
		return nil
	}
	for _, name := range names {
		if last == "" || slices.Contains(strings.Split(last, ","), name) {
			continue
		}
		log.Info("what this transport has kept is of before another was used: it is removed, and filled anew", zap.String("transport", name), zap.String("last", last))
		if err := discards()[name](c, log); err != nil {
			return err
		}
	}
	err = os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = writeWhole(path, []byte(now+"\n"))
	}
	if err = errors.Join(unknown, err); err != nil {
		log.Warn("it is not kept which transport is used: if another is used later, remove by hand what it has kept from before", zap.Error(err))
	}
	return nil
}
