package redis_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A real is a Redis server, which is reached at an address that stays when it is cut off and
// comes back.
type real struct {
	address string
	tls     *tls.Config

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
	seen  chan struct{} // has something whenever a connection was refused while it was cut off
}

// newReal starts one, with what is to be on its command line besides.
func newReal(t *testing.T, secured *tls.Config, args ...string) *real {
	dir := t.TempDir()
	socket := filepath.Join(dir, "redis.sock")
	server := exec.Command("redis-server", append([]string{"--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", dir}, args...)...)
	out, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	lines := bufio.NewScanner(out)
	for !strings.Contains(lines.Text(), "Ready to accept connections") && !strings.Contains(lines.Text(), "ready to accept connections") {
		require.True(t, lines.Scan(), "redis-server has ended")
	}
	go io.Copy(io.Discard, out)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &real{address: l.Addr().String(), tls: secured, conns: map[net.Conn]bool{}, seen: make(chan struct{}, 1)}
	var all sync.WaitGroup
	all.Go(func() { r.accept(l, socket, &all) })
	t.Cleanup(func() { l.Close(); r.set(true); all.Wait() })
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
