package chaos

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

// A carrier says how the programs are told of a transport.
type carrier struct {
	name             string
	principal, agent func(end) []string
	servers          bool // agents have a server that counts
}

// An end is what one program is told of a link.
type end struct {
	dir     string // of what is kept
	address string // to listen on, or to connect to
	monitor string // where its NATS server tells of itself
}

func (e end) connect() []string {
	host, port, _ := net.SplitHostPort(e.address) // it is one of ours
	return []string{"--server-address", host, "--server-port", port}
}

func (e end) stored() []string {
	return []string{"--transport", "nats", "--nats-store-dir", e.dir, "--nats-monitor-listen", e.monitor}
}

// carriers returns all of them.
func carriers() []carrier {
	return []carrier{
		{
			name: "leaf", servers: true,
			principal: func(e end) []string { return append(e.stored(), "--nats-leaf-listen", e.address) },
			agent:     func(e end) []string { return append(e.stored(), e.connect()...) },
		},
		{
			name: "client",
			principal: func(e end) []string {
				return append(e.stored(), "--nats-leaf-listen", "127.0.0.1:0", "--nats-client-listen", e.address)
			},
			agent: func(e end) []string {
				return append([]string{"--transport", "nats", "--nats-mode", "client", "--state-dir", e.dir}, e.connect()...)
			},
		},
		{
			name: "grpc",
			principal: func(e end) []string {
				return []string{"--transport", "grpc", "--state-dir", e.dir, "--grpc-listen", e.address}
			},
			agent: func(e end) []string {
				return append([]string{"--transport", "grpc", "--state-dir", e.dir}, e.connect()...)
			},
		},
	}
}

// A program is the principal or an agent, which is started again whenever it has ended, as a
// kubelet does, unless it is to be down.
type program struct {
	*stack.Process
	dir             string // of what it keeps
	health, metrics string
	monitor         string // of its NATS server, if it has one

	mu     sync.Mutex
	down   bool
	starts int
}

// restartTime is for how long a program that has ended by itself stays so.
const restartTime = time.Second

// run keeps the program running until ctx is done.
func (p *program) run(ctx context.Context) error {
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	var ended time.Time
	for {
		p.mu.Lock()
		switch {
		case p.down || p.Running():
			ended = time.Time{}
		case ended.IsZero():
			ended = time.Now()
		}
		if !p.down && !p.Running() && time.Since(ended) > restartTime {
			if err := p.start(ctx); err != nil {
				p.mu.Unlock()
				return err
			}
		}
		p.mu.Unlock()
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// befall kills the program, and perhaps removes all that it has kept.
func (p *program) befall(what string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	p.Kill()
	if what == wiped {
		return os.RemoveAll(p.dir)
	}
	return nil
}

// heal starts the program.
func (p *program) heal(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
	if p.Running() {
		return nil
	}
	return p.start(ctx)
}

// start is called with the lock held.
func (p *program) start(ctx context.Context) error {
	p.starts++
	return p.Start(ctx)
}

// started returns how often the program was started.
func (p *program) started() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts
}

// ready checks that the program says it is ready.
func (p *program) ready(ctx context.Context) error {
	return stack.Answers(nil, p.health+"/readyz")(ctx)
}

// A size is how large a program is.
type size struct{ goroutines, bytes float64 }

// size asks the program for its own.
func (p *program) size(ctx context.Context) (s size, err error) {
	answer, err := get(ctx, p.metrics+"/metrics")
	if err != nil {
		return s, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return s, err
	}
	for name, to := range map[string]*float64{"go_goroutines ": &s.goroutines, "process_resident_memory_bytes ": &s.bytes} {
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, name); ok {
				*to, err = strconv.ParseFloat(strings.TrimSpace(value), 64)
			}
		}
		if err != nil || *to == 0 {
			return s, fmt.Errorf("%s does not tell its %s: %w", p.Name(), name, err)
		}
	}
	return s, nil
}

func get(ctx context.Context, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(request)
}

// cries returns the lines of the program's log that no program should ever write.
func (p *program) cries() (out []string, err error) {
	log, err := os.ReadFile(p.Log())
	for line := range strings.Lines(string(log)) {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.Contains(line, "DATA RACE") {
			out = append(out, line)
		}
	}
	return out, err
}
