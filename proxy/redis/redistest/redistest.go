// Package redistest runs real Redis servers for tests. It needs the program redis-server.
package redistest

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A Server is a real one, which keeps nothing on disk.
type Server struct {
	dir, socket, password string
	run                   *exec.Cmd
}

// Start starts a Server that asks for a password, "" for none, and returns once it can be
// reached. Whoever has started it stops it.
func Start(password string) (*Server, error) {
	dir, err := os.MkdirTemp("", "redis")
	if err != nil {
		return nil, fmt.Errorf("redistest: start redis-server: %w", err)
	}
	s := &Server{dir: dir, socket: filepath.Join(dir, "s"), password: password}
	s.run = exec.Command("redis-server", "--port", "0", "--unixsocket", s.socket, "--save", "", "--appendonly", "no", "--dir", dir, "--requirepass", password)
	if err := s.ready(); err != nil {
		return nil, fmt.Errorf("redistest: start redis-server: %w", errors.Join(err, os.RemoveAll(dir)))
	}
	return s, nil
}

func (s *Server) ready() error {
	out, err := s.run.StdoutPipe()
	if err != nil {
		return err
	}
	defer out.Close() // it runs on without
	if err := s.run.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(strings.ToLower(lines.Text()), "ready to accept connections") {
			return nil
		}
	}
	return errors.Join(errors.New("it has ended"), s.run.Wait())
}

// Stop ends the Server, and leaves nothing behind.
func (s *Server) Stop() {
	_ = s.run.Process.Kill()
	_ = s.run.Wait() // it was killed
	_ = os.RemoveAll(s.dir)
}

// empty has the server hold nothing.
func (s *Server) empty() error {
	c, err := net.Dial("unix", s.socket)
	if err != nil {
		return err
	}
	defer c.Close() // all is said
	ask, answers := "FLUSHALL\r\n", 1
	if s.password != "" {
		ask, answers = "AUTH "+s.password+"\r\n"+ask, 2
	}
	if _, err := io.WriteString(c, ask); err != nil {
		return err
	}
	for lines := bufio.NewScanner(c); answers > 0; answers-- {
		if !lines.Scan() || lines.Text() != "+OK" {
			return fmt.Errorf("it says %q", lines.Text())
		}
	}
	return nil
}

// A Way is a way to a Server, at an address that stays when it is cut off and comes back.
type Way struct {
	Address string
	// Seen has something once a connection was refused while the way was cut off.
	Seen chan struct{}

	tls    *tls.Config
	socket string
	mu     sync.Mutex
	cut    bool
	conns  map[net.Conn]bool
	all    sync.WaitGroup
}

// Open makes a Way to the Server, which is emptied first, for as long as the test lasts. It is
// by TLS if that is not nil.
func (s *Server) Open(t testing.TB, secured *tls.Config) *Way {
	t.Helper()
	if err := s.empty(); err != nil {
		t.Fatalf("redistest: empty redis-server: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: listen: %v", err)
	}
	w := &Way{Address: l.Addr().String(), Seen: make(chan struct{}, 1), tls: secured, socket: s.socket, conns: map[net.Conn]bool{}}
	w.all.Go(func() { w.accept(l) })
	t.Cleanup(func() { l.Close(); w.Set(true); w.all.Wait() })
	return w
}

func (w *Way) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if !w.add(c) {
			c.Close()
			continue
		}
		if w.tls != nil {
			c = tls.Server(c, w.tls)
		}
		far, err := net.Dial("unix", w.socket)
		if err != nil {
			c.Close()
			continue
		}
		w.all.Go(func() { io.Copy(far, c); far.Close() })
		w.all.Go(func() { io.Copy(c, far); c.Close() })
	}
}

func (w *Way) add(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.cut {
		w.conns[c] = true
		return true
	}
	select {
	case w.Seen <- struct{}{}:
	default:
	}
	return false
}

// Set cuts the way off, with all connections that there are, or has it come back.
func (w *Way) Set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if !cut {
		return
	}
	for c := range w.conns {
		c.Close()
	}
	clear(w.conns)
}
