package netfault

import (
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A Proxy is an HTTP proxy on the loopback interface that knows CONNECT only. It implements
// http.Handler.
type Proxy struct {
	// Credentials are what Proxy-Authorization must be; "" takes anybody.
	Credentials string

	passed atomic.Int64
	lines  sync.WaitGroup
}

// Passed returns how many connections it has made.
func (p *Proxy) Passed() int64 { return p.passed.Load() }

// Wait returns when all connections have ended.
func (p *Proxy) Wait() { p.lines.Wait() }

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodConnect:
		http.Error(w, "only CONNECT is known", http.StatusMethodNotAllowed)
		return
	case p.Credentials != "" && r.Header.Get("Proxy-Authorization") != p.Credentials:
		http.Error(w, "who are you?", http.StatusProxyAuthRequired)
		return
	}
	to, err := net.DialTimeout("tcp", r.Host, 10*time.Second)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	from, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = to.Close()
		return
	}
	p.passed.Add(1)
	_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
	for _, way := range []struct {
		in  io.Reader
		out net.Conn
	}{{buffered, to}, {to, from}} {
		p.lines.Go(func() {
			_, _ = io.Copy(way.out, way.in)
			_ = from.Close()
			_ = to.Close()
		})
	}
}
