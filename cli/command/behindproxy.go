package command

import (
	"fmt"
	"net"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// unixSocket begins the value of --grpc-listen that names a Unix socket.
const unixSocket = "unix:"

// guarded refuses a principal that speaks in plaintext where others than a proxy may reach it:
// anybody there could say to be any agent.
func guarded(c *cli.Context, listen string, own *identity.Credentials) error {
	if err := unwrapped(c, "--auth", own); err != nil {
		return err
	}
	if !own.Plain() || strings.HasPrefix(listen, unixSocket) || c.String("trusted-proxy-cidr") != "" {
		return nil
	}
	host, _, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsLoopback() {
		return nil
	}
	return &shell.UsageError{
		Where: "--auth", What: fmt.Sprintf("who reaches %s could say to be any agent in a header", listen),
		Advice: "say by --trusted-proxy-cidr where the proxies are, or set --grpc-listen to 127.0.0.1:port or unix:path",
	}
}

// headed refuses credentials that need headers where there are none. flag is where they are asked
// for.
func headed(flag string, own *identity.Credentials) error {
	if !own.Plain() {
		return nil
	}
	return &shell.UsageError{
		Where: flag, What: "what NATS carries has no headers in which a proxy could say who an agent is",
		Advice: "use --transport grpc, or another method",
	}
}

// unwrapped refuses websockets for credentials that speak in plaintext: what they carry is TLS.
func unwrapped(c *cli.Context, flag string, own *identity.Credentials) error {
	if !own.Plain() || !inWebsocket(c) {
		return nil
	}
	return &shell.UsageError{
		Where: flag, What: "what websockets carry is TLS between the two sides, and header: is plaintext",
		Advice: "leave out --enable-websocket, or use another method",
	}
}
