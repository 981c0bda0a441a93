package command

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/argocd-fabric/argocd-agent/cli/check"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/tunnel"
)

// An approach is a way that is being tried.
type approach struct {
	way
	flag     string                        // that says where the principal is
	envelope func(host string) *tls.Config // of a websocket by wss, see tunnel.Route
}

// end returns the host:port at the end of what this side connects to: of the principal, or of what
// takes its websockets.
func (w approach) end() string {
	if w.websocket != nil {
		return tunnel.WebsocketAddress(w.websocket)
	}
	return w.address
}

// first returns the host that this side resolves and connects to, and its port.
func (w approach) first() (host, port string, err error) {
	if w.proxy != nil {
		return net.SplitHostPort(tunnel.Address(w.proxy))
	}
	return net.SplitHostPort(w.end())
}

// dns is a stage: whether the name is known.
func (w approach) dns(ctx context.Context) (string, error) {
	host, _, err := w.first()
	if err != nil {
		return "", err
	}
	behind := ""
	if w.proxy != nil {
		behind = "; the proxy resolves " + w.end()
	}
	if net.ParseIP(host) != nil {
		return host + " is an address" + behind, nil
	}
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return "", &check.Failure{Err: err, Advice: "correct the name (" + w.flag + "), or have it resolved where this runs"}
	}
	return host + " is " + strings.Join(found, ", ") + behind, nil
}

// tcp is a stage: whether somebody listens, also behind the proxy.
func (w approach) tcp(ctx context.Context) (string, error) {
	conn, err := tunnel.Dial(ctx, w.proxy, w.end())
	if err != nil {
		return "", w.unreached(err)
	}
	through := ""
	if w.proxy != nil {
		through = " through " + w.proxy.Redacted()
	}
	return "connected to " + w.end() + through, conn.Close()
}

// unreached says what to do about nobody being there.
func (w approach) unreached(err error) error {
	switch {
	case w.proxy != nil:
		return &check.Failure{Err: err, Advice: "see that the proxy (--proxy, HTTPS_PROXY) runs and lets through to " + w.end() + ", or leave it out (--proxy direct)"}
	case errors.Is(err, context.DeadlineExceeded), os.IsTimeout(err):
		return &check.Failure{Err: err, Advice: "packets get lost: open the way to " + w.end() + " in firewalls and network policies"}
	}
	return &check.Failure{Err: err, Advice: "see that the principal runs, that it listens on that port (" + w.flag + "), and that its Service leads there"}
}

// dial opens the connection that TLS is in.
func (w approach) dial(ctx context.Context) (net.Conn, error) {
	conn, err := tunnel.Route{Proxy: w.proxy, Websocket: w.websocket, TLS: w.envelope}.Dial(ctx, w.address)
	switch {
	case err == nil:
		return conn, nil
	case w.websocket != nil:
		return nil, &check.Failure{Err: err, Advice: "see that the principal takes websockets (--enable-websocket, --nats-websocket-listen), and that --websocket-url leads there"}
	}
	return nil, w.unreached(err)
}

// handshake connects by TLS, and returns the connection with what the principal has shown.
func (w approach) handshake(ctx context.Context, cfg *tls.Config) (*tls.Conn, error) {
	raw, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	cfg.NextProtos = []string{"h2", "http/1.1"} // what any transport has above TLS; NATS does not ask
	conn := tls.Client(raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // err says what is wrong
		return nil, &check.Failure{Err: err, Advice: w.tlsAdvice(err)}
	}
	return conn, nil
}

// tlsAdvice says what to do about a handshake that fails on this side.
func (w approach) tlsAdvice(err error) string {
	var (
		strange x509.UnknownAuthorityError
		other   x509.HostnameError
		invalid x509.CertificateInvalidError
		plain   tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &strange):
		return "the principal's certificate is of another CA than the one trusted here: compare --root-ca-path, or the Secret argocd-agent-ca, on both sides"
	case errors.As(err, &other):
		return "the principal's certificate has other names: argocd-agentctl pki issue principal --upsert with --dns or --ip for it, or another " + w.flag
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the principal's certificate is not valid now: argocd-agentctl pki issue principal --upsert, or set this clock"
	case errors.As(err, &plain):
		return "what listens at " + w.address + " speaks no TLS: name the principal's own port (" + w.flag + "), and no load balancer that ends TLS"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "what listens at " + w.address + " hangs up: see that it is the principal, and that nothing between ends TLS"
	}
	return "see the principal's log, and that nothing between ends TLS"
}

// shown says which certificate the peer has shown.
func shown(conn *tls.Conn) string {
	s := conn.ConnectionState()
	leaf := s.PeerCertificates[0]
	return fmt.Sprintf("%s; %s", tls.VersionName(s.Version), certified(leaf))
}

// certified says what a certificate is.
func certified(leaf *x509.Certificate) string {
	return fmt.Sprintf("certificate of %s by %s, until %s", leaf.Subject, leaf.Issuer, leaf.NotAfter.UTC().Format(time.RFC3339))
}

// quietly is how long a principal that says nothing after the handshake is waited for.
const quietly = 2 * time.Second

// accepted finds out whether the principal takes the certificate that this side has shown: it
// says so only after the handshake, by what it says first.
func accepted(ctx context.Context, conn net.Conn) error {
	until := time.Now().Add(quietly)
	if d, bounded := ctx.Deadline(); bounded && d.Before(until) {
		until = d
	}
	if err := conn.SetReadDeadline(until); err != nil {
		return err
	}
	_, err := conn.Read(make([]byte, 1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil // it waits for this side to speak
	}
	return err
}

// refusedAdvice says what to do about a principal that does not take the certificate.
func refusedAdvice(own *identity.Credentials) string {
	return fmt.Sprintf("the principal does not take the certificate of %q: it must be of a CA that the principal trusts, be valid by its clock, and not be on its blocklist; see the principal's log", own.Name())
}
