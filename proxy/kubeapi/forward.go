package kubeapi

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
)

// A forwarder is what both halves do alike: it passes requests on to where a RoundTripper
// leads, and the answers back.
type forwarder struct {
	to      http.RoundTripper
	buffers httputil.BufferPool
	log     *log.Logger
}

func newForwarder(to http.RoundTripper, log *log.Logger) forwarder {
	return forwarder{to: to, buffers: &buffers{}, log: log}
}

// A passage is what becomes of one request on its way.
type passage struct {
	aim   func(*httputil.ProxyRequest)                    // says where it goes
	check func(*http.Response) error                      // says whether an answer may pass
	fail  func(http.ResponseWriter, *http.Request, error) // answers where there is none
}

// pass passes one request on, and its answer back. If that breaks off, so does the caller's: by
// a panic, as the library has it.
func (f forwarder) pass(w http.ResponseWriter, r *http.Request, p passage) {
	_ = http.NewResponseController(w).EnableFullDuplex() // where it can be had; in HTTP/2 it always is
	(&httputil.ReverseProxy{
		Rewrite: func(q *httputil.ProxyRequest) {
			strip(q.Out.Header)
			q.Out.Trailer = nil // nothing would have looked at it
			p.aim(q)
		},
		Transport:     f.to,
		FlushInterval: -1, // each piece at once
		BufferPool:    f.buffers,
		ErrorLog:      f.log,
		ErrorHandler:  p.fail,
		ModifyResponse: func(a *http.Response) error {
			if err := p.check(a); err != nil {
				return err
			}
			if c, ok := a.Body.(io.ReadWriteCloser); ok && a.StatusCode == http.StatusSwitchingProtocols {
				a.Body = tunnel{c}
			}
			return nil
		},
	}).ServeHTTP(w, r)
}

// wanted reports whether a request is one of the Kubernetes API, and not for a proxy.
func wanted(r *http.Request) bool {
	return r.Method != http.MethodConnect && r.URL.Host == "" && strings.HasPrefix(r.URL.Path, "/")
}

// A tunnel is what a request was upgraded to, of bytes both ways. It ends in both directions when
// one does, as it does in an API server: what Kubernetes upgrades to has its own words for the end
// of one direction, and whoever waited for the other one would wait for somebody who has gone.
type tunnel struct{ io.ReadWriteCloser }

var errOver = errors.New("kubeapi: the other end has closed")

// Read implements io.Reader. It never returns io.EOF, after which the library would go on with
// the other direction.
func (t tunnel) Read(p []byte) (int, error) {
	n, err := t.ReadWriteCloser.Read(p)
	if err == io.EOF {
		err = errOver
	}
	return n, err
}

// bufferSize is how much of a body is under way between reading and writing it.
const bufferSize = 64 << 10

// buffers are those that are not in use. It implements httputil.BufferPool.
type buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return p[:]
	}
	return new([bufferSize]byte)[:]
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(p []byte) { b.pool.Put((*[bufferSize]byte)(p)) }
