// Package tunnel reaches a principal where agents may not dial it as they otherwise would:
// through an HTTP proxy, by CONNECT, where they may not dial out; and in a websocket, where
// neither HTTP/2 nor bare TCP passes, such as behind a reverse proxy that speaks HTTP/1.1 only.
//
// # In a websocket
//
// A websocket carries the bytes of one connection, each binary message some of them. That
// connection is the one that there would be without: TLS with the certificates of both sides,
// from end to end. So whatever lies between, even if it ends the TLS of the websocket, sees
// nothing, changes nothing, and speaks in nobody's name; and all that holds of a connection
// (who is let in, for how long, and when it is given up) holds of one in a websocket.
//
// The envelope around it, be it wss or ws, proves nothing: a Door asks nobody who he is before
// the connection within does. It only has to pass what lies between.
package tunnel

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// Direct is the text that stands for no proxy.
const Direct = "direct"

// Parse returns the proxy by which address, a host:port, is reached: the one that text names;
// none for Direct; and if text is empty, what HTTPS_PROXY and NO_PROXY in the environment say.
// nil is none. An address on the loopback interface needs none that is not named.
func Parse(text, address string) (*url.URL, error) {
	switch text {
	case Direct:
		return nil, nil
	case "":
		u, err := httpproxy.FromEnvironment().ProxyFunc()(&url.URL{Scheme: "https", Host: address})
		if err != nil {
			return nil, fmt.Errorf("tunnel: HTTPS_PROXY: %w", err)
		}
		return u, Check(u)
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("tunnel: it is no URL") // which may have a password in it
	}
	return u, Check(u)
}

// Check returns an error unless a proxy can be used; nil is none, and can.
func Check(proxy *url.URL) error {
	switch {
	case proxy == nil:
		return nil
	case proxy.Scheme != "http" && proxy.Scheme != "https":
		return fmt.Errorf("tunnel: %s: a proxy is reached by http or https", proxy.Redacted())
	case proxy.Hostname() == "":
		return fmt.Errorf("tunnel: %s names no host", proxy.Redacted())
	}
	return nil
}

// Address returns the host:port of a proxy.
func Address(proxy *url.URL) string {
	if proxy.Port() != "" {
		return proxy.Host
	}
	return net.JoinHostPort(proxy.Hostname(), map[string]string{"http": "80", "https": "443"}[proxy.Scheme])
}

// Dial connects to address through a proxy, which then resolves the name in it; nil is none.
func Dial(ctx context.Context, proxy *url.URL, address string) (net.Conn, error) {
	if proxy == nil {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	fail := func(err error) (net.Conn, error) {
		return nil, fmt.Errorf("tunnel: reach %s through %s: %w", address, proxy.Redacted(), err)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", Address(proxy))
	if err != nil {
		return fail(err)
	}
	if proxy.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: proxy.Hostname(), MinVersion: tls.VersionTLS12})
	}
	// What waits for the proxy ends with ctx.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = ask(conn, proxy, address)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close() // err says what is wrong
		return fail(err)
	}
	return conn, nil
}

// ask asks the proxy at the other end of conn for a way to address.
func ask(conn net.Conn, proxy *url.URL, address string) error {
	r := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if u := proxy.User; u != nil {
		password, _ := u.Password()
		r.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)))
	}
	if err := r.Write(conn); err != nil {
		return err
	}
	from := bufio.NewReader(conn)
	answer, err := http.ReadResponse(from, r)
	if err != nil {
		return err
	}
	_ = answer.Body.Close() // there is none
	switch {
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("the proxy answers %s", answer.Status)
	case from.Buffered() > 0: // who is dialled speaks second
		return errors.New("the proxy says more than it was asked")
	}
	return nil
}
