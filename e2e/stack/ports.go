package stack

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// The range of ports is below the one from which Linux takes those of outgoing
// connections: a port of that range may be gone before its server listens.
const (
	firstPort = 20000
	lastPort  = 29999
)

// ports hands out TCP ports of 127.0.0.1. A port stays reserved, also towards
// other programs that use this package, so that a server can be stopped and
// started again on it.
type ports struct {
	dir string // of the lock files

	mu    sync.Mutex
	locks []*os.File
}

// take returns a port that nobody listens on.
func (p *ports) take() (int, error) {
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return 0, fmt.Errorf("stack: reserve a port: %w", err)
	}
	const size = lastPort - firstPort + 1
	start := rand.IntN(size)
	for i := range size {
		port := firstPort + (start+i)%size
		lock, err := lockFile(filepath.Join(p.dir, strconv.Itoa(port)), false)
		if errors.Is(err, errLocked) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("stack: reserve a port: %w", err)
		}
		listener, err := net.Listen("tcp", loopback(port))
		if err != nil { // taken by somebody else
			_ = lock.Close()
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, errors.Join(fmt.Errorf("stack: reserve a port: %w", err), lock.Close())
		}
		p.mu.Lock()
		p.locks = append(p.locks, lock)
		p.mu.Unlock()
		return port, nil
	}
	return 0, fmt.Errorf("stack: reserve a port: none of %d-%d is free", firstPort, lastPort)
}

// release gives all ports back.
func (p *ports) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, lock := range p.locks {
		_ = lock.Close()
	}
	p.locks = nil
}

// loopback returns the address of a port on 127.0.0.1.
func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
