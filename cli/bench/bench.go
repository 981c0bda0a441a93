// Package bench measures the product on the machine that it runs on. The principal is in this
// process and the agents are in another (package fleet), joined over mutual TLS on the loopback
// interface, as they are in use; memory stores stand for the clusters, and are as slow as they
// are told to be.
//
// What is measured is a table, see Rows. Every change that is made carries a number, by which
// what became of it is known: changes that were lost, done twice or done in the wrong order are
// counted, and a figure that was reached by losing some is worth nothing. So that is a failure,
// as is a promise that does not depend on the machine; a goal for time, memory or bytes that is
// missed is said, and is no failure.
//
// Page makes BENCHMARKS.md: it runs commands of the table, one process each, and writes down
// what they have said.
package bench

import (
	"context"
	"io"
	"time"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
)

// A Carrier is by what messages travel.
type Carrier = fleet.Carrier

// RunAgents is the process of the agents, until in ends: see Settings.
func RunAgents(ctx context.Context, in io.Reader, out io.Writer) error {
	return fleet.Run(ctx, in, out)
}

// A Row is something that is measured, and how.
type Row struct {
	Name    string // of the command
	Numbers string // of the goals that it is about
	Usage   string // in a line
	Text    string // what is done, and what is told
	Limits  string // what limits the figures, as far as it is known
	Flags   []Flag
	// Page holds the arguments of each command that is on the page, and Long those of the same
	// commands in full length.
	Page, Long [][]string

	least   time.Duration // the shortest of which something can be told
	measure func(context.Context, Settings) (Report, error)
}

// Measure measures as it is set. An error says that nothing could be measured; a Misfit is a
// setting's.
func (r Row) Measure(ctx context.Context, s Settings) (Report, error) {
	if err := r.check(s); err != nil {
		return Report{}, err
	}
	s.Agents, s.Apps = max(s.Agents, 1), max(s.Apps, 1)
	report, err := r.measure(ctx, s)
	report.Row = r.Name
	return report, err
}
