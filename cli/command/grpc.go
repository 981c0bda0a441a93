package command

import (
	"strings"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/grpclink"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// grpcPort is where a principal listens for agents over gRPC unless it is told otherwise.
const grpcPort = 8443

func grpcCommon(log *zap.Logger) grpclink.Common {
	return grpclink.Common{
		Presence: transport.Presence{Version: version(), Oldest: wire.Oldest, Newest: wire.Newest},
		Logger:   quiet(log, grpcAdvice()),
	}
}

func grpcHub(c *cli.Context, log *zap.Logger) (newHub, error) {
	listen := c.String("grpc-listen")
	if !strings.HasPrefix(listen, unixSocket) {
		var err error
		if listen, err = doorOf(c, "grpc-listen", grpcPort); err != nil {
			return nil, err
		}
	}
	return func(own *identity.Credentials, method identity.Method, met strangers) (transport.Hub, error) {
		if err := guarded(c, listen, own); err != nil {
			return nil, err
		}
		return grpclink.NewHub(grpclink.HubConfig{Common: grpcCommon(log), Listen: listen, Websocket: c.Bool("enable-websocket"), Credentials: own, Authenticate: method.Prove, Strangers: met})
	}, nil
}

func grpcDialer(c *cli.Context, log *zap.Logger) (newDialer, error) {
	to, err := wayOf(c, standards()["grpc"])
	if err != nil {
		return nil, err
	}
	says, err := wishOf(c)
	if err != nil {
		return nil, err
	}
	return func(own *identity.Credentials) (transport.Dialer, error) {
		if err := unwrapped(c, "--creds", own); err != nil {
			return nil, err
		}
		return grpclink.NewDialer(grpclink.DialerConfig{Common: grpcCommon(log), Agent: agentName(c, own), Connect: to.address, Proxy: to.proxy, Websocket: to.websocket, Credentials: own, StateDir: stateDir(c), Says: says})
	}, nil
}

// grpcAdvice says what to do about what either end complains of.
func grpcAdvice() map[string]string {
	return map[string]string{
		"another session of this agent has begun":                                      "another agent has connected under this one's name and with its certificate: stop one of them",
		"identity: no such user and password":                                          "the principal's file has another password for this agent, or none: see argocd-agentctl userpass",
		"identity: the peer has said no user and password":                             "the principal asks for a password: see --creds",
		"agent is not registered":                                                      "register it on the principal's side (argocd-agentctl agent create), and see the principal's log",
		"failed to verify certificate: x509: certificate signed by unknown authority":  "this side and the other have certificates of different CAs: compare --root-ca-path on both",
		"remote error: tls: expired certificate":                                       clocks,
		"certificate has expired or is not yet valid: current time":                    clocks,
		"remote error: tls: [^e]":                                                      "the principal does not take this agent's certificate: compare --root-ca-path on both sides, and see the principal's log",
		"failed to verify certificate: x509: certificate is (valid for|not valid for)": "the principal is reached under a name that its certificate does not have: see --server-address",
	}
}
