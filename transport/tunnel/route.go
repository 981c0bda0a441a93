package tunnel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/coder/websocket"
)

// A Route is how a principal is reached. The zero Route dials it.
type Route struct {
	// Proxy is the HTTP proxy on the way; nil is none.
	Proxy *url.URL
	// Websocket is the URL, ws or wss, of the websocket in which the connection is carried; nil
	// is none.
	Websocket *url.URL
	// TLS returns what a host is met with by wss.
	TLS func(host string) *tls.Config
}

// ParseWebsocket returns the URL of a websocket. What text, which may be empty, does not say is
// as follows: the scheme is wss, the host is address, a host:port, and the path is path.
func ParseWebsocket(text, address, path string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("tunnel: it is no URL")
	case text == "":
		u = &url.URL{Scheme: "wss", Host: address}
	}
	if err := (Route{Websocket: u}).Check(); err != nil {
		return nil, err
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = path
	}
	return u, nil
}

// WebsocketAddress returns the host:port of the URL of a websocket.
func WebsocketAddress(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), map[string]string{"ws": "80", "wss": "443"}[u.Scheme])
}

// Check returns an error unless the Route can be taken.
func (r Route) Check() error {
	switch u := r.Websocket; {
	case u == nil:
	case u.Scheme != "ws" && u.Scheme != "wss":
		return fmt.Errorf("tunnel: %s: a websocket is reached by ws or wss", u.Redacted())
	case u.Hostname() == "":
		return fmt.Errorf("tunnel: %s names no host", u.Redacted())
	}
	return Check(r.Proxy)
}

// Dial connects to address, a host:port, or to what the websocket leads to.
func (r Route) Dial(ctx context.Context, address string) (net.Conn, error) {
	if r.Websocket == nil {
		return Dial(ctx, r.Proxy, address)
	}
	way := &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return Dial(ctx, r.Proxy, address)
		},
		DisableKeepAlives: true,
	}
	if r.Websocket.Scheme == "wss" {
		way.TLSClientConfig = r.TLS(r.Websocket.Hostname())
	}
	// A redirection is an answer like others that are no websocket.
	client := &http.Client{Transport: way, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ws, answer, err := websocket.Dial(ctx, r.Websocket.String(), &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		return nil, fmt.Errorf("tunnel: reach %s: %w", r.Websocket.Redacted(), why(answer, err))
	}
	return carry(ws, r.Websocket.Path), nil
}

// maxReason bounds how much of what an answer says is told.
const maxReason = 200

// why returns why there is no websocket: what was answered, if anything was.
func why(answer *http.Response, err error) error {
	var failed *url.Error
	switch {
	case answer == nil && errors.As(err, &failed):
		return failed.Err // which does not repeat the URL
	case answer == nil || answer.StatusCode == http.StatusSwitchingProtocols:
		return err
	}
	said, _ := io.ReadAll(io.LimitReader(answer.Body, maxReason)) // what it says is extra
	line, _, _ := strings.Cut(strings.TrimSpace(string(said)), "\n")
	return fmt.Errorf("it is answered %s: %q", answer.Status, line)
}
