package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
)

// adminFlags are those of what argocd-agentctl asks of a running principal.
func adminFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.String("admin-listen", "", "127.0.0.1:8404", "the loopback `address` at which argocd-agentctl asks the principal, or unix:///path; empty is off. Whoever reaches it may ask and approve"),
	}
}

// An adminDesk is where users ask a principal.
type adminDesk struct {
	network, address string // "" is nowhere
	server           *admin.Server
}

// newAdminDesk returns the desk at the address that the flag says, without its server.
func newAdminDesk(c *cli.Context) (d adminDesk, err error) {
	text := c.String("admin-listen")
	if text == "" {
		return d, nil
	}
	if d.network, d.address, err = admin.Address(text); err != nil {
		return d, &shell.UsageError{Where: "--admin-listen", What: err.Error(), Advice: "write 127.0.0.1:port or unix:///path, or nothing to turn it off"}
	}
	return d, nil
}

// Run serves until ctx is done, and returns its cause, or fails.
func (d adminDesk) Run(ctx context.Context) error {
	if d.address == "" {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	l, err := d.listen(ctx)
	if err != nil {
		return fmt.Errorf("command: listen for argocd-agentctl: %w; choose another --admin-listen", err)
	}
	return d.server.Serve(ctx, l)
}

func (d adminDesk) listen(ctx context.Context) (net.Listener, error) {
	if d.network == "unix" {
		if err := sweep(ctx, d.address); err != nil {
			return nil, err
		}
	}
	l, err := new(net.ListenConfig).Listen(ctx, d.network, d.address)
	if err == nil && d.network == "unix" {
		err = os.Chmod(d.address, 0o600)
	}
	return l, err
}

// sweep removes the socket of a process that was killed, and nothing else.
func sweep(ctx context.Context, path string) error {
	is, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case is.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there, and is no socket", path)
	}
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = c.Close()
		return nil // it is in use, and to listen there fails
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return nil
}
