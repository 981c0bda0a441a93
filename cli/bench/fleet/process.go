package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os/exec"
	"time"
)

// A Process is the process of the agents, as the principal's sees it. Its methods may be called
// concurrently, and fail once it has ended.
type Process struct {
	ctx       context.Context
	stdin     io.Closer
	calls     *rpc.Client
	complaint bytes.Buffer
	ended     chan struct{}
	err       error // why it has, once it has
}

// Launch starts the process by a command that calls Run. It ends with ctx.
func Launch(ctx context.Context, command []string) (*Process, error) {
	p := &Process{ctx: ctx, ended: make(chan struct{})}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr, cmd.WaitDelay = &p.complaint, patience
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.stdin = stdin
	cmd.Cancel = stdin.Close // it ends by itself
	answers, stdout := io.Pipe()
	cmd.Stdout = stdout
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the agents: %w", err)
	}
	p.calls = rpc.NewClient(struct {
		io.Reader
		io.WriteCloser
	}{answers, stdin})
	go func() {
		defer close(p.ended)
		p.err = cmd.Wait()
		stdout.Close()
	}()
	return p, nil
}

// call calls a method of the process.
func (p *Process) call(method string, args, reply any) error {
	err := p.calls.Call(service+"."+method, args, reply)
	if err == nil {
		return nil
	}
	if told := rpc.ServerError(""); errors.As(err, &told) {
		return fmt.Errorf("the agents: %w", err)
	}
	<-p.ended // there is nobody to talk to
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	return fmt.Errorf("the agents: %w: %s", errors.Join(err, p.err), bytes.TrimSpace(p.complaint.Bytes()))
}

// ask calls a method that has an answer only.
func ask[T any](p *Process, method string) (answer T, err error) {
	err = p.call(method, true, &answer)
	return answer, err
}

// Start starts the agents, and returns without waiting for them to meet the principal.
func (p *Process) Start(o Order) (s Started, err error) {
	err = p.call("Start", o, &s)
	return s, err
}

// Halt ends the programs of all agents. Their clusters stay.
func (p *Process) Halt() error { return p.call("Halt", true, new(bool)) }

// Resume starts the programs of all agents that do not run, on what those before them have kept.
func (p *Process) Resume() error { return p.call("Resume", true, new(bool)) }

// InStep returns how many agents have met the principal and know all that it says.
func (p *Process) InStep() (int, error) { return ask[int](p, "InStep") }

// Writes returns what the clusters have written since the last call, after a moment.
func (p *Process) Writes() ([]Write, error) { return ask[[]Write](p, "Writes") }

// Traffic returns what has crossed the line by now.
func (p *Process) Traffic() (Traffic, error) { return ask[Traffic](p, "Traffic") }

// Count returns what the agents have counted since they were started.
func (p *Process) Count() (Count, error) { return ask[Count](p, "Count") }

// Holds returns the number that each Application carries, all those of the first agent first;
// 0 is one that is not there.
func (p *Process) Holds() ([]int, error) { return ask[[]int](p, "Holds") }

// Objects returns how many Applications there are on all clusters.
func (p *Process) Objects() (int, error) { return ask[int](p, "Objects") }

// Look returns what the process takes.
func (p *Process) Look() (Footprint, error) { return ask[Footprint](p, "Look") }

// CPU returns what the process has used of the processors.
func (p *Process) CPU() (time.Duration, error) { return ask[time.Duration](p, "CPU") }

// Push changes statuses, as the controllers of clusters do.
func (p *Process) Push(what Push) (done Pushed, err error) {
	err = p.call("Push", what, &done)
	return done, err
}

// Close has the process end, and waits for it.
func (p *Process) Close() error {
	err := p.calls.Close()
	if errors.Is(err, rpc.ErrShutdown) {
		err = nil // it has gone before
	}
	<-p.ended
	if p.ctx.Err() != nil {
		return nil
	}
	if p.err != nil {
		err = errors.Join(err, fmt.Errorf("the agents: %w: %s", p.err, bytes.TrimSpace(p.complaint.Bytes())))
	}
	return err
}
