package kubeapi

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

const (
	dialTime = 10 * time.Second
	idleTime = 90 * time.Second // that a connection is kept for another request
	maxIdle  = 32               // connections that are
)

// reach returns the address of an API server, what leads to it with a client's credentials, and
// what closes connections that are kept.
//
// It is not rest.TransportFor: that one cuts every connection off, whatever is under way on it,
// when a certificate is replaced.
func reach(c *rest.Config) (*url.URL, http.RoundTripper, func(), error) {
	fail := func(err error) (*url.URL, http.RoundTripper, func(), error) { return nil, nil, nil, err }
	now, err := rest.TLSConfigFor(c)
	if err != nil {
		return fail(err)
	}
	server, _, err := rest.DefaultServerURL(c.Host, "", schema.GroupVersion{}, now != nil)
	if err != nil {
		return fail(err)
	}
	alive := net.KeepAliveConfig{Enable: true, Idle: quietTime, Interval: quietTime / 3, Count: 3}
	dial := (&net.Dialer{Timeout: dialTime, KeepAliveConfig: alive}).DialContext
	if c.Dial != nil {
		dial = c.Dial
	}
	through := http.ProxyFromEnvironment
	if c.Proxy != nil {
		through = c.Proxy
	}
	http1 := new(http.Protocols)
	http1.SetHTTP1(true)
	to := &http.Transport{
		Proxy:               through,
		DialContext:         dial,
		DialTLSContext:      secured(c, dial),
		TLSClientConfig:     now, // by way of a proxy
		TLSHandshakeTimeout: dialTime,
		Protocols:           http1,
		DisableCompression:  true, // what is compressed is so for the caller
		MaxIdleConnsPerHost: maxIdle,
		IdleConnTimeout:     idleTime,
	}
	wrapped, err := rest.HTTPWrappersForConfig(c, to)
	if err != nil {
		return fail(err)
	}
	return server, wrapped, to.CloseIdleConnections, nil
}

// secured returns what makes connections of TLS, each by certificates and CAs as they are then.
func secured(c *rest.Config, dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		now, err := rest.TLSConfigFor(c)
		if err != nil {
			return nil, err
		}
		if now == nil {
			now = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		now.ServerName = cmp.Or(now.ServerName, host)
		ctx, stop := context.WithTimeout(ctx, dialTime)
		defer stop()
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		own := tls.Client(raw, now)
		if err := own.HandshakeContext(ctx); err != nil {
			_ = raw.Close() // it is of no use
			return nil, err
		}
		return own, nil
	}
}
