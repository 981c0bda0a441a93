// Package linktest is the suite that every transport passes. It proves the comments of
// package transport under cut, half open and slow lines, restarts of either side, and the
// loss of each store.
//
// The suite waits for deliveries, with a deadline, and never sleeps: it runs in real time
// as well as in the bubble of testing/synctest. A transport's own test is one call of Run
// with a Network made of the real thing, its processes, its disks and a line that can be
// cut.
package linktest

import (
	"slices"
	"testing"
)

// An Adapter is the transport under test.
type Adapter struct {
	// New returns a Network without stores whose lines are healthy. It registers with
	// t.Cleanup what ends it, so that no goroutine is left; its processes may be running.
	New func(t *testing.T) Network
	// Traits says what is to be expected of it.
	Traits Traits
	// Within calls test, once. It is synctest.Test for a transport that needs no real time,
	// and Plainly for others.
	Within func(t *testing.T, test func(t *testing.T))
	// Reconnects is how often in a row the line is cut and healed; 0 is a hundred times.
	Reconnects int
	// SideBySide has the tests run in parallel, for a transport that waits more than it works.
	// Goroutines that are left are then for the package's TestMain to find: in one test it cannot
	// be told whose they are.
	SideBySide bool
}

// Plainly calls test with t.
func Plainly(t *testing.T, test func(t *testing.T)) { test(t) }

// A test is one of the suite's, with what it takes of a transport.
type test struct {
	name  string
	run   func(*world)
	needs []Store // these must be Kept
}

// suite returns all tests.
func suite() []test {
	return slices.Concat(deliveries, faults, restarts, logs, wipes(), presences, agents, closings, streams)
}

// Run tests the adapter.
func Run(t *testing.T, a Adapter) {
	for _, c := range suite() {
		if !a.Traits.keeps(c.needs...) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if a.SideBySide {
				t.Parallel()
			}
			a.Within(t, func(t *testing.T) { c.run(newWorld(t, a)) })
		})
	}
}

func (t Traits) keeps(stores ...Store) bool {
	for _, s := range stores {
		if !t.Kept[s] {
			return false
		}
	}
	return true
}
