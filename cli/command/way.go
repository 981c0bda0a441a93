package command

import (
	"net"
	"net/url"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/transport/grpclink"
	"github.com/argocd-fabric/argocd-agent/transport/natslink"
	"github.com/argocd-fabric/argocd-agent/transport/tunnel"
)

// A way is how an agent reaches its principal.
type way struct {
	address   string   // host:port, of which the host is in the principal's certificate
	proxy     *url.URL // on the way; nil is none
	websocket *url.URL // in which the connection is carried; nil is none
}

// A standard is how a principal is reached unless it is said otherwise.
type standard struct {
	port   int
	listen string // the flag by which the principal chooses it

	websocketPort   int
	websocketListen string // the same for it
	path            string // of the URL of a websocket
}

// standards say how a principal is reached by each transport.
func standards() map[string]standard {
	return map[string]standard{
		"nats": {
			port: natsPort, listen: "nats-leaf-listen",
			websocketPort: natsWebsocketPort, websocketListen: "nats-websocket-listen", path: natslink.WebsocketPath,
		},
		natsClient: {
			port: natsClientPort, listen: "nats-client-listen",
			websocketPort: natsWebsocketPort, websocketListen: "nats-websocket-listen", path: natslink.ClientWebsocketPath,
		},
		"grpc": {
			port: grpcPort, listen: "grpc-listen",
			websocketPort: grpcPort, websocketListen: "grpc-listen", path: grpclink.WebsocketPath,
		},
	}
}

// wayFlags are those of an agent that say how it reaches its principal.
func wayFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.String("server-address", "REMOTE_SERVER", "", "the `host` of the principal"),
		f.Int("server-port", "REMOTE_PORT", natsPort, shell.Port, "the `port` of the principal; unless it is given, it is 8443 with --transport grpc, and with --transport nats 8444 by websocket, else 4222 with --nats-mode client"),
		f.String("nats-mode", "", "leaf", "what the agent runs, with --transport nats, the `mode`: leaf (a NATS server, which keeps on disk in --nats-store-dir what is said both ways), or client (none: it keeps in --state-dir what it has heard, and takes less memory; the principal must have --nats-client-listen)"),
		f.String("proxy", "", "", "the `URL` of the HTTP proxy by which the principal is reached, as http://host:port; direct is none, and empty is what HTTPS_PROXY and NO_PROXY say"),
		f.Bool("enable-websocket", "", "connect by websocket, where nothing but HTTP/1.1 passes; the principal must allow it"),
		f.String("websocket-url", "", "", "the `URL` by which that is done, as wss://host:port or ws://host:port, if it is not that of the principal itself; it implies --enable-websocket"),
	}
}

// inWebsocket reports whether flags of either side ask for websockets where those are not on a
// port of their own.
func inWebsocket(c *cli.Context) bool {
	return c.Bool("enable-websocket") || c.String("websocket-url") != ""
}

// wayOf returns how an agent reaches its principal, by flags.
func wayOf(c *cli.Context, s standard) (w way, err error) {
	host, err := shell.Needed(c, "server-address", "say where the principal is")
	if err != nil {
		return w, err
	}
	given, wrapped := c.String("websocket-url"), inWebsocket(c)
	if wrapped {
		s.port, s.listen = s.websocketPort, s.websocketListen
	}
	port := c.Int("server-port")
	switch {
	case !c.IsSet("server-port"):
		port = s.port
	case port == 0:
		return w, &shell.UsageError{Where: "--server-port", What: "0 is no port to connect to", Advice: "write the port of the principal's --" + s.listen}
	}
	w.address = net.JoinHostPort(host, strconv.Itoa(port))
	dialled := w.address
	if wrapped {
		if w.websocket, err = tunnel.ParseWebsocket(given, w.address, s.path); err != nil {
			return w, &shell.UsageError{Where: "--websocket-url", What: err.Error(), Advice: "write wss://host:port or ws://host:port"}
		}
		dialled = tunnel.WebsocketAddress(w.websocket)
	}
	if w.proxy, err = tunnel.Parse(c.String("proxy"), dialled); err != nil {
		return w, &shell.UsageError{Where: "--proxy", What: err.Error(), Advice: "write http://host:port or https://host:port, or direct"}
	}
	return w, nil
}
