package grpclink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/packetlink"
	"github.com/argocd-fabric/argocd-agent/transport/tunnel"
)

// A DialerConfig configures an agent's end.
type DialerConfig struct {
	Common
	// Agent is the agent's name. The hub must find the same in what proves it.
	Agent string
	// Connect is the host:port of the principal.
	Connect string
	// Proxy is the HTTP proxy by which the principal is reached; nil is none.
	Proxy *url.URL
	// Websocket is the URL, ws or wss, by which Connect is reached in a websocket; nil is none.
	Websocket *url.URL
	// Credentials are what the principal is met with: the certificate is the agent's. Once they
	// are replaced it is met anew.
	Credentials *identity.Credentials
	// StateDir is the directory in which the copy of what the principal has said is kept. It is
	// made if need be. No other process may use it at the same time.
	StateDir string
	// Says is what the principal is told of the agent if it does not know it, of at most
	// transport.MaxSaid bytes; "" is nothing.
	Says string

	host  string // of Connect
	route tunnel.Route
}

// copyFile is the name of the file in StateDir.
const copyFile = "grpc-copy.db"

// Discard removes what an agent has kept in its StateDir, which no process may use.
func Discard(stateDir string) error {
	if err := os.Remove(filepath.Join(stateDir, copyFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("grpclink: remove what is kept: %w", err)
	}
	return nil
}

// A Dialer is an agent's end. It implements transport.Dialer and transport.Troubled.
type Dialer struct {
	*packetlink.Dialer
	config  DialerConfig
	squeeze *squeezer
	trouble trouble
}

// NewDialer returns a Dialer. Nothing happens before Dial.
func NewDialer(c DialerConfig) (*Dialer, error) {
	fail := func(err error) (*Dialer, error) { return nil, fmt.Errorf("grpclink: agent: %w", err) }
	var err error
	if c.Common, err = c.check(); err != nil {
		return fail(err)
	}
	if err := identity.CheckName(c.Agent); err != nil {
		return fail(err)
	}
	if c.Credentials == nil {
		return fail(errors.New("credentials are needed"))
	}
	if c.host, _, err = net.SplitHostPort(c.Connect); err != nil {
		return fail(err)
	}
	if c.StateDir == "" {
		return fail(errors.New("no state directory"))
	}
	if len(c.Says) > transport.MaxSaid {
		return fail(errors.New("what the agent says of itself is too long"))
	}
	c.route = tunnel.Route{Proxy: c.Proxy, Websocket: c.Websocket, TLS: c.Credentials.EnvelopeClient}
	if err := errors.Join(c.Credentials.Claims(c.Agent), c.route.Check()); err != nil {
		return fail(err)
	}
	squeeze, err := newSqueezer()
	if err != nil {
		return fail(err)
	}
	d := &Dialer{config: c, squeeze: squeeze, trouble: trouble{log: c.Logger}}
	d.Dialer = packetlink.NewDialer(d.open)
	return d, nil
}

// Troubles implements transport.Troubled: "copy" is that the copy cannot be written.
func (d *Dialer) Troubles() []transport.Trouble { return d.trouble.list() }

// open opens the Link on what the copy holds, and begins to connect.
func (d *Dialer) open() (transport.Link, error) {
	kept, err := openKept(filepath.Join(d.config.StateDir, copyFile), d.config.Agent, &d.trouble)
	if err != nil {
		return nil, err
	}
	end, err := packetlink.Open(packetlink.Config{Local: d.config.Agent, Peer: "principal", Copy: kept})
	if err != nil {
		_ = kept.Close() // what was wrong with it is in err
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &agentLink{End: end, cancel: cancel}
	c := &caller{config: d.config, end: end, common: common{beat: d.config.Heartbeat, squeeze: d.squeeze}}
	l.calls.Go(func() { c.run(ctx) })
	return l, nil
}

// An agentLink is the agent's end of the Link.
type agentLink struct {
	*packetlink.End
	cancel context.CancelFunc
	calls  sync.WaitGroup
}

// Close implements transport.Link. The End goes first: what waits for it is told that it is
// closed, and not that the peer is gone.
func (l *agentLink) Close() error {
	err := l.End.Close()
	l.cancel()
	l.calls.Wait()
	return err
}
