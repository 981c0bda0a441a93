package natslink

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/argocd-fabric/argocd-agent/transport/tunnel"
)

// bridgeUser is by whom a bridge is used.
const bridgeUser = "leaf"

// A bridge is how the server of a leaf reaches the principal in a websocket. The server dials
// by itself, so that the bridge is an HTTP proxy to it, on the loopback interface, which goes
// to the one place whatever it is asked for. Nobody else on this machine knows its password.
type bridge struct {
	dial     func(context.Context) (net.Conn, error)
	password string
	listener net.Listener
	ctx      context.Context
	cancel   context.CancelFunc
	all      sync.WaitGroup
}

// openBridge returns a bridge, until it is closed. dial reaches the principal.
func openBridge(dial func(context.Context) (net.Conn, error)) (*bridge, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("natslink: bridge to the principal: %w", err)
	}
	b := &bridge{dial: dial, password: rand.Text(), listener: l}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.all.Go(b.accept)
	return b, nil
}

// close ends the bridge, and what crosses it. nil has nothing to end.
func (b *bridge) close() {
	if b == nil {
		return
	}
	b.cancel()
	_ = b.listener.Close() // once
	b.all.Wait()
}

// lead has a remote go by the bridge. The address to which it goes is known to the bridge; the
// one that it has must be known to the machine, so that it is the bridge's own.
func (b *bridge) lead(r *server.RemoteLeafOpts) {
	address := b.listener.Addr().String()
	r.URLs = []*url.URL{{Scheme: "tls", Host: address}}
	r.Proxy.URL, r.Proxy.Username, r.Proxy.Password = "http://"+address, bridgeUser, b.password
	r.Proxy.Timeout = dialTimeout + tlsTimeout
}

func (b *bridge) accept() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return // it is closed
		}
		b.all.Go(func() { b.serve(conn) })
	}
}

func (b *bridge) serve(conn net.Conn) {
	defer context.AfterFunc(b.ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(dialTimeout)) // fails only if it has ended, as the next does
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil || !b.knows(r.Header.Get("Proxy-Authorization")) {
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	ctx, cancel := context.WithTimeout(b.ctx, dialTimeout+tlsTimeout)
	defer cancel()
	up, err := b.dial(ctx)
	if err != nil {
		// All that the server tells of it is this line.
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 502 %s\r\n\r\n", strings.Join(strings.Fields(err.Error()), " "))
		return
	}
	if _, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		_ = up.Close()
		return
	}
	tunnel.Join(conn, up)
}

// knows reports whether the server of the leaf has asked.
func (b *bridge) knows(said string) bool {
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(bridgeUser+":"+b.password))
	return subtle.ConstantTimeCompare([]byte(said), []byte(want)) == 1
}
