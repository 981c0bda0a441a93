// Package fleet is the process of the agents of a benchmark. Each is an agent of the product,
// whole, with a store in memory for a cluster; there may be a thousand of them in the one
// process, which the process of the principal starts and asks by package rpc, over its
// standard input and output.
//
// Every change carries a number, by which both processes know what became of it: see Spec and
// Status. They run on one machine, and so have the same clock.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"runtime/pprof"
	"time"

	"golang.org/x/sync/errgroup"
)

// Namespace is that of every agent, and of the Applications on its cluster.
const Namespace = "argocd"

// tick is as the programs have it.
const tick = time.Second

// patience is with what must come.
const patience = 60 * time.Second

// An Order says what agents there are to be.
type Order struct {
	Dir       string // of certificates, and of what agents keep
	Principal string // where it listens
	Carrier   Carrier
	Agents    int
	First     int           // how many agents begin; the others do with Resume. 0 is all
	Apps      int           // Applications of each agent
	Delay     time.Duration // that each write takes on a cluster
	Noted     bool          // note is taken of what is written and received
	Metered   bool          // bytes are counted, on a line between agents and principal
	Live      bool          // the first agent has an API server
	// Kubeconfig is that of an API server of which all clusters are namespaces, see Spoke; "" is none.
	Kubeconfig string
	// Profile is where a profile of what the process does with processors is written; "" is none.
	Profile string
}

// Name returns the name of an agent, which is also the namespace of its Applications on the hub.
func Name(agent int) string { return fmt.Sprint("edge-", agent+1) }

// Run is the process: it does what it is asked until in ends. Nobody but Process talks to it.
func Run(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &fleet{}
	f.parts, f.ctx = errgroup.WithContext(ctx)
	s := rpc.NewServer()
	if err := s.RegisterName(service, f); err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		s.ServeConn(pipe{in, out})
	}()
	select {
	case <-asked:
	case <-f.ctx.Done(): // a part has failed, and the answer to what is asked would not tell
	}
	cancel()
	if err := f.parts.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// service is the name under which a fleet is asked.
const service = "Fleet"

// A pipe is the standard input and output of a process.
type pipe struct {
	io.Reader
	io.Writer
}

// Close implements io.Closer: whoever gave them closes them.
func (pipe) Close() error { return nil }

// A fleet is what is asked of the process. Its exported methods are those of package rpc; one
// that needs no argument, or has no answer, is given a bool of no meaning.
type fleet struct {
	parts   *errgroup.Group
	ctx     context.Context // of parts
	order   Order
	meter   *meter
	members []*member
}

// Started is where what was started is.
type Started struct{ Server string }

// Start starts the agents, and returns without waiting for them to meet the principal.
func (f *fleet) Start(o Order, to *Started) (err error) {
	f.order = o
	if err := f.profile(o.Profile); err != nil {
		return err
	}
	if o.Metered {
		if f.meter, err = newMeter(o.Principal); err != nil {
			return err
		}
		f.order.Principal = f.meter.address()
		f.parts.Go(func() error { return f.meter.run(f.ctx) })
	}
	shared, err := f.cluster()
	if err != nil {
		return err
	}
	for i := range o.Agents {
		f.members = append(f.members, newMember(f.order, i, shared))
	}
	if o.Live {
		if to.Server, err = f.serveLive(f.members[0]); err != nil {
			return err
		}
	}
	return f.resume(cmp.Or(o.First, o.Agents))
}

// profile begins to profile this process, until it ends.
func (f *fleet) profile(to string) error {
	if to == "" {
		return nil
	}
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return errors.Join(err, file.Close())
	}
	f.parts.Go(func() error {
		<-f.ctx.Done()
		pprof.StopCPUProfile()
		return file.Close()
	})
	return nil
}

// Resume starts the programs of all agents that do not run, on what those before them have kept.
func (f *fleet) Resume(bool, *bool) error { return f.resume(len(f.members)) }

func (f *fleet) resume(first int) error {
	for _, m := range f.members[:first] {
		if m.stop != nil {
			continue
		}
		if err := m.start(f.ctx, f.parts.Go); err != nil {
			return err
		}
	}
	return nil
}

// Halt ends the programs of all agents. Their clusters stay.
func (f *fleet) Halt(bool, *bool) error {
	for _, m := range f.members {
		m.halt()
	}
	return nil
}

// InStep returns how many agents have met the principal and know all that it says.
func (f *fleet) InStep(_ bool, to *int) error {
	for _, m := range f.members {
		if m.stop == nil {
			continue
		}
		if s := m.agent.Status(); s.Connected && s.Engine.InStep {
			*to++
		}
	}
	return nil
}

// Writes returns what the clusters have written since the last call, after a moment.
func (f *fleet) Writes(_ bool, to *[]Write) error {
	select {
	case <-time.After(pause):
	case <-f.ctx.Done():
		return context.Cause(f.ctx)
	}
	for _, m := range f.members {
		writes, err := m.store.take()
		if err != nil {
			return err
		}
		*to = append(*to, writes...)
	}
	return nil
}

// pause is how long writes are gathered before they are told.
const pause = 10 * time.Millisecond

// Traffic is what has crossed the line.
type Traffic struct {
	Up, Down int64 // bytes
}

// Traffic returns what has crossed the line by now.
func (f *fleet) Traffic(_ bool, to *Traffic) error {
	*to = f.meter.traffic()
	return nil
}

// A Count is of messages and of watches.
type Count struct {
	Received int // messages about objects
	Unique   int // different ones of them
	Watches  int // that agents have begun on their clusters, each of which lists it
}

// Count returns what the agents have counted since they were started.
func (f *fleet) Count(_ bool, to *Count) error {
	for _, m := range f.members {
		received, unique := m.tap.count()
		to.Received, to.Unique, to.Watches = to.Received+received, to.Unique+unique, to.Watches+int(m.store.watches.Load())
	}
	return nil
}

// Holds returns the number that each Application carries, all those of the first agent first;
// 0 is one that is not there.
func (f *fleet) Holds(_ bool, to *[]int) error {
	for _, m := range f.members {
		for app := range f.order.Apps {
			o, _ := m.cluster.Get(m.key(app))
			n, _ := Number(o)
			*to = append(*to, n)
		}
	}
	return nil
}

// Objects returns how many Applications there are on all clusters.
func (f *fleet) Objects(_ bool, to *int) error {
	for _, m := range f.members {
		*to += len(m.cluster.All())
	}
	return nil
}

// Look returns what the process takes.
func (f *fleet) Look(_ bool, to *Footprint) (err error) {
	*to, err = Look()
	return err
}

// CPU returns what the process has used of the processors.
func (f *fleet) CPU(_ bool, to *time.Duration) (err error) {
	*to, err = CPU()
	return err
}

// A Push says which statuses are to be changed.
type Push struct {
	First, Agents, Apps int           // of so many agents from the First on, and so many Applications of each
	From                int           // the number of the first change; each has one of its own, which grows
	Resources           int           // in each status
	Rate                int           // how many changes a second; 0 is as fast as can be
	For                 time.Duration // for how long, in turn; 0 is each once
}

// A Pushed is what was done of a Push.
type Pushed struct {
	Changes int
	Began   int64 // in nanoseconds since 1970
}

// Push changes statuses, as the controllers of clusters do.
func (f *fleet) Push(p Push, to *Pushed) error {
	began := time.Now()
	to.Began = began.UnixNano()
	total := p.Agents * p.Apps
	if p.For > 0 {
		total = int(float64(p.Rate) * p.For.Seconds())
	}
	for i := range total {
		if p.Rate > 0 {
			if err := until(f.ctx, began.Add(time.Duration(i)*time.Second/time.Duration(p.Rate))); err != nil {
				return err
			}
		}
		m, app := f.members[p.First+i%p.Agents], i/p.Agents%p.Apps
		m.setStatus(app, Status(p.From+i, p.Resources))
		to.Changes++
	}
	return nil
}

// until waits until a time has come.
func until(ctx context.Context, at time.Time) error {
	wait := time.Until(at)
	if wait <= 0 {
		return nil
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
