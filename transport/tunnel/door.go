package tunnel

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// Bounds of what somebody may take before he is in: how long until he has said what he wants,
// and in how many bytes.
const (
	patience   = 10 * time.Second
	maxHeaders = 8 << 10
)

// A DoorConfig configures a Door.
type DoorConfig struct {
	// Path is that of the URL by which websockets come.
	Path string
	// Another is a second such path; "" is none. PathOf says by which a connection has come.
	Another string
	// TLS is what those are met with who come by wss. It should ask for no certificate.
	TLS *tls.Config
	// Others says that who does not speak HTTP/1.1, by what he offers in TLS, is let in too, as he
	// is: one port serves both.
	Others bool
}

// A Door is the listener of the connections that are carried in the websockets that come to
// another listener; see DoorConfig for Others. Websockets come by TLS or without. Who wants
// anything else is told so, by HTTP.
type Door struct {
	config   DoorConfig
	listener net.Listener
	arrived  chan arrival
	http     *http.Server
	visitors queue // of http
	closed   chan struct{}
	end      func() error
	all      sync.WaitGroup

	mu     sync.Mutex
	looked map[net.Conn]bool // at whom is being looked; nil once it is closed
}

// An arrival is what Accept returns.
type arrival struct {
	conn net.Conn
	err  error
}

// Open returns a Door before a listener, which is closed with it.
func Open(l net.Listener, c DoorConfig) *Door {
	d := &Door{config: c, listener: l, arrived: make(chan arrival), closed: make(chan struct{}), looked: map[net.Conn]bool{}}
	d.visitors = queue{addr: l.Addr(), conns: make(chan net.Conn), closed: d.closed}
	d.http = &http.Server{
		Handler:     d,
		ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: patience, MaxHeaderBytes: maxHeaders,
		ErrorLog: log.New(io.Discard, "", 0), // who is wrong is told
	}
	d.end = sync.OnceValue(func() error {
		close(d.closed)
		err := errors.Join(d.listener.Close(), d.http.Close())
		d.mu.Lock()
		for conn := range d.looked {
			_ = conn.Close() // nobody has it yet
		}
		d.looked = nil
		d.mu.Unlock()
		d.all.Wait()
		return err
	})
	d.all.Go(d.listen)
	d.all.Go(func() { _ = d.http.Serve(d.visitors) }) // ends with the Door
	return d
}

// Accept implements net.Listener.
func (d *Door) Accept() (net.Conn, error) {
	select {
	case a := <-d.arrived:
		return a.conn, a.err
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener.
func (d *Door) Addr() net.Addr { return d.listener.Addr() }

// Close implements net.Listener. What was accepted stays open.
func (d *Door) Close() error { return d.end() }

// admit has Accept return a connection, or an error.
func (d *Door) admit(a arrival) {
	select {
	case d.arrived <- a:
	case <-d.closed:
		if a.conn != nil {
			_ = a.conn.Close()
		}
	}
}

func (d *Door) listen() {
	for {
		conn, err := d.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			d.admit(arrival{err: err})
		default:
			d.all.Go(func() { d.look(conn) })
		}
	}
}

// look finds out what a connection speaks, and shows it in.
func (d *Door) look(conn net.Conn) {
	d.mu.Lock()
	open := d.looked != nil
	if open {
		d.looked[conn] = true
	}
	d.mu.Unlock()
	if !open {
		_ = conn.Close()
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience)) // fails only if it has ended, as the next does
	speaks, seen, err := listenTo(conn)
	_ = conn.SetReadDeadline(time.Time{})
	d.mu.Lock()
	delete(d.looked, conn)
	d.mu.Unlock()
	if err != nil {
		_ = conn.Close() // it has said nothing, or not enough in time
		return
	}
	conn = seen
	switch {
	case speaks == plainText:
		d.visitors.push(conn)
	case speaks == overTLS || !d.config.Others:
		d.visitors.push(tls.Server(conn, d.config.TLS))
	default:
		d.admit(arrival{conn: conn})
	}
}

// ServeHTTP implements http.Handler: it lets a websocket in.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != d.config.Path && (r.URL.Path != d.config.Another || d.config.Another == ""):
		http.Error(w, "argocd-agent: agents connect to the path "+d.config.Path, http.StatusNotFound)
		return
	case !strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		http.Error(w, "argocd-agent: agents connect by websocket, and what comes here has no Upgrade header for one", http.StatusUpgradeRequired)
		return
	}
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // which it has been told
	}
	d.admit(arrival{conn: carry(ws, r.URL.Path)})
}

// A queue is a listener of connections that are pushed.
type queue struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
}

func (q queue) push(conn net.Conn) {
	select {
	case q.conns <- conn:
	case <-q.closed:
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (q queue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.conns:
		return conn, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener.
func (q queue) Addr() net.Addr { return q.addr }

// Close implements net.Listener. It ends with the Door.
func (q queue) Close() error { return nil }
