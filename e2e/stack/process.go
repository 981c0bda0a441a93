package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// pollInterval is how often readiness is asked for.
const pollInterval = 25 * time.Millisecond

// A ProcessConfig describes a program to run.
type ProcessConfig struct {
	// Name is for messages and for the log file.
	Name string
	// Path is the program, Args are its arguments without its name.
	Path string
	Args []string
	// Env is the whole environment, as KEY=value.
	Env []string
	// Dir is the working directory; empty means that of this process.
	Dir string
	// Log is the file that standard output and error are appended to.
	Log string
	// Ready is asked again and again until it returns nil: then the program
	// has started. A nil Ready means that running is enough.
	Ready func(context.Context) error
}

// A Process is a program that can be started, ended and started again. Its
// methods may be called from any goroutine.
type Process struct {
	cfg ProcessConfig

	mu  sync.Mutex // held by Start, Stop, Kill and Restart as a whole
	run *run       // the last start; nil before the first
}

// A run is the time from one start to the end it comes to.
type run struct {
	pid  int
	done chan struct{} // closed once the process is reaped
	err  error         // how it ended; read it after done
}

func (r *run) running() bool {
	if r == nil {
		return false
	}
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// NewProcess returns a process that is not started yet. Whoever starts it also
// ends it; those made by [Stack.Process] end with their stack.
func NewProcess(cfg ProcessConfig) *Process { return &Process{cfg: cfg} }

// Name returns the name from the configuration.
func (p *Process) Name() string { return p.cfg.Name }

// Config returns the configuration, to make a variant of the process with it.
func (p *Process) Config() ProcessConfig { return p.cfg }

// Log returns the path of the log file.
func (p *Process) Log() string { return p.cfg.Log }

// Running reports whether the program runs, ready or not.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run.running()
}

// PID returns the process id of the last start, or 0 before the first.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return 0
	}
	return p.run.pid
}

// Wait returns once the program that runs now has ended, with what it ended
// by: nil for exit code 0, else an [exec.ExitError].
func (p *Process) Wait(ctx context.Context) error {
	p.mu.Lock()
	r := p.run
	p.mu.Unlock()
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("stack: wait for %s: %w", p.cfg.Name, ctx.Err())
	}
}

// Start starts the program and returns once it is ready. A program that is not
// ready when ctx ends, or that ends before it is, is killed.
func (p *Process) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.start(ctx)
}

// Stop asks the program to end by SIGTERM and returns once it has; when ctx
// ends first, the program is killed. To stop what does not run is no error.
func (p *Process) Stop(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stop(ctx)
}

// Kill ends the program and what it has started by SIGKILL.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kill()
}

// Restart stops the program, if it runs, and starts it again.
func (p *Process) Restart(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.stop(ctx); err != nil {
		return err
	}
	return p.start(ctx)
}

// Signal sends a signal to the program and what it has started. SIGSTOP and
// SIGCONT make a peer that is there but answers nothing.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.run.running() {
		return fmt.Errorf("stack: signal %s: %w", p.cfg.Name, os.ErrProcessDone)
	}
	if err := syscall.Kill(-p.run.pid, sig); err != nil {
		return fmt.Errorf("stack: signal %s: %w", p.cfg.Name, err)
	}
	return nil
}

func (p *Process) start(ctx context.Context) error {
	if p.run.running() {
		return fmt.Errorf("stack: start %s: it runs already", p.cfg.Name)
	}
	r, err := p.spawn()
	if err != nil {
		return fmt.Errorf("stack: start %s: %w", p.cfg.Name, err)
	}
	p.run = r
	if err := p.ready(ctx); err != nil {
		p.kill()
		return fmt.Errorf("stack: start %s: %w; the end of its log:\n%s", p.cfg.Name, err, p.tail(10))
	}
	return nil
}

func (p *Process) stop(ctx context.Context) error {
	if !p.run.running() {
		return nil
	}
	// A paused program would not notice. The only error of these two is that
	// it has just ended, which is what is wanted.
	_ = syscall.Kill(-p.run.pid, syscall.SIGCONT)
	_ = syscall.Kill(p.run.pid, syscall.SIGTERM)
	select {
	case <-p.run.done:
		p.kill() // what it has left behind
		return nil
	case <-ctx.Done():
		p.kill()
		return fmt.Errorf("stack: stop %s: killed: %w", p.cfg.Name, ctx.Err())
	}
}

// kill ends the whole process group, of which the program is the leader.
func (p *Process) kill() {
	if p.run == nil {
		return
	}
	_ = syscall.Kill(-p.run.pid, syscall.SIGKILL) // no such group: nothing is left
	<-p.run.done
}

// ready returns once the program is ready, or the reason why it will not be.
func (p *Process) ready(ctx context.Context) error {
	if p.cfg.Ready == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := p.run
	go func() { // there is nothing to wait for once it has ended
		select {
		case <-r.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := Poll(ctx, pollInterval, p.cfg.Ready)
	if !r.running() {
		return fmt.Errorf("it ended before it was ready: %w", errors.Join(r.err, err))
	}
	return err
}

// spawn starts the program.
func (p *Process) spawn() (*run, error) {
	if err := os.MkdirAll(filepath.Dir(p.cfg.Log), 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(p.cfg.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(p.cfg.Path, p.cfg.Args...)
	cmd.Env = append([]string{}, p.cfg.Env...) // nil would mean our own
	cmd.Dir = p.cfg.Dir
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.SysProcAttr = attributes()

	r := &run{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel kills the child when the thread that started it ends, not
		// when the process does: so that thread stays until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer log.Close()
		err := cmd.Start()
		if err != nil {
			started <- err
			return
		}
		r.pid = cmd.Process.Pid
		started <- nil
		r.err = cmd.Wait()
		close(r.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return r, nil
}

// tail returns the end of the log, for an error message.
func (p *Process) tail(lines int) string {
	data, err := os.ReadFile(p.cfg.Log)
	if err != nil {
		return err.Error()
	}
	return lastLines(string(data), lines)
}
