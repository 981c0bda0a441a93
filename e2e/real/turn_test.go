package real

import (
	"flag"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// turns let as many worlds be played at once as there are cores, the longest first. The testing
// package alone would choose them at random, and at the end the longest would often run alone.
var turns = struct {
	sync.Mutex
	changed *sync.Cond
	waiting []int
	played  int
}{}

// inTurn has a test run beside others, once those that take longer have begun.
func inTurn(t *testing.T, minutes int) {
	turns.Lock()
	turns.waiting = append(turns.waiting, minutes)
	turns.Unlock()
	t.Parallel()
	turns.Lock()
	defer turns.Unlock()
	for turns.played == runtime.GOMAXPROCS(0) || slices.Max(turns.waiting) > minutes {
		turns.changed.Wait()
	}
	at := slices.Index(turns.waiting, minutes)
	turns.waiting = slices.Delete(turns.waiting, at, at+1)
	turns.played++
	turns.changed.Broadcast()
	t.Cleanup(func() {
		turns.Lock()
		defer turns.Unlock()
		turns.played--
		turns.changed.Broadcast()
	})
}

// takeTurns leaves it to inTurn how many tests run at once.
func takeTurns() error {
	turns.changed = sync.NewCond(&turns)
	return flag.Set("test.parallel", "16")
}
