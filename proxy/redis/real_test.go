package redis_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The servers of all tests: the hub's, and those of two agents, whose passwords are their names.
var servers = map[string]*server{"": {}, "edge-1": {}, "edge-2": {}}

// A server is a real one at a socket.
type server struct {
	socket string
	run    *exec.Cmd
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "redis")
	for name, s := range servers {
		if err == nil {
			err = s.start(filepath.Join(dir, "of-"+name), name)
		}
	}
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		for _, s := range servers {
			_ = s.run.Process.Kill()
			_ = s.run.Wait()
		}
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

func (s *server) start(dir, password string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	s.socket = filepath.Join(dir, "s")
	s.run = exec.Command("redis-server", "--port", "0", "--unixsocket", s.socket, "--save", "", "--appendonly", "no", "--dir", dir, "--requirepass", password)
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
	return fmt.Errorf("redis-server has ended: %w", s.run.Wait())
}

// A real is a way to one of the servers, which is empty at first. Its address stays when it is
// cut off and comes back.
type real struct {
	address string
	tls     *tls.Config

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
	seen  chan struct{} // has something once a connection was refused while it was cut off
}

func newReal(t *testing.T, secured *tls.Config, name string) *real {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &real{address: l.Addr().String(), tls: secured, conns: map[net.Conn]bool{}, seen: make(chan struct{}, 1)}
	var all sync.WaitGroup
	all.Go(func() { r.accept(l, servers[name].socket, &all) })
	t.Cleanup(func() { l.Close(); r.set(true); all.Wait() })
	own := goredis.NewClient(&goredis.Options{Network: "unix", Addr: servers[name].socket, Password: name})
	defer own.Close()
	require.NoError(t, own.FlushAll(t.Context()).Err())
	return r
}

func (r *real) accept(l net.Listener, socket string, all *sync.WaitGroup) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if !r.add(c) {
			c.Close()
			continue
		}
		if r.tls != nil {
			c = tls.Server(c, r.tls)
		}
		far, err := net.Dial("unix", socket)
		if err != nil {
			c.Close()
			continue
		}
		all.Go(func() { io.Copy(far, c); far.Close() })
		all.Go(func() { io.Copy(c, far); c.Close() })
	}
}

func (r *real) add(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut {
		select {
		case r.seen <- struct{}{}:
		default:
		}
		return false
	}
	r.conns[c] = true
	return true
}

// set cuts it off, with all connections that there are, or has it come back.
func (r *real) set(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
	for c := range r.conns {
		if cut {
			c.Close()
			delete(r.conns, c)
		}
	}
}
