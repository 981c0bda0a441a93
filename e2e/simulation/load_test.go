package simulation

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// TestScenario07_AnApplicationOfMegabytes: as large as the API server takes, it arrives whole.
// One that no link takes is a dead letter which says so; others pass it, nobody tries again,
// and once it is smaller it arrives.
func TestScenario07_AnApplicationOfMegabytes(t *testing.T) {
	playOnEach(t, func(t *testing.T, f fabric) {
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		w.start()
		large := strings.Repeat("x", 3<<19)
		s.hub().set("large", resource.Spec, wordy(1, large))
		w.agree()
		require.Contains(t, s.here().part("large", resource.Spec), large)

		s.hub().set("huge", resource.Spec, wordy(1, strings.Repeat("x", transport.MaxMessage)))
		s.hub().set("small", resource.Spec, number(1))
		s.hub().set("large", resource.Spec, wordy(2, large))
		w.await(f.patience, "the others arrive", func() bool {
			return s.here().n("small", resource.Spec) == 1 && s.here().n("large", resource.Spec) == 2
		})
		book := w.ledger.Book(s.name)
		w.await(f.patience, "it is a dead letter", func() bool { return s.upper().DeadLetters == 1 })
		letter := book.All()[0]
		require.Equal(t, ledger.Unsent, letter.Cause)
		require.Contains(t, letter.Key, "huge")
		require.Contains(t, letter.Reason, transport.ErrTooLarge.Error())
		w.hush()
		require.False(t, s.here().has("huge"))
		require.Equal(t, 1, s.upper().DeadLetters)

		s.hub().set("huge", resource.Spec, wordy(2, large))
		w.agree()
		require.Contains(t, s.here().part("huge", resource.Spec), large)
		require.Zero(t, s.upper().DeadLetters)
	})
}

// wordy is a spec that holds n, and a text.
func wordy(n int, text string) string { return fmt.Sprintf(`{"n":%d,"text":"%s"}`, n, text) }

// TestScenario16_StatusesThatFlap: what users of the hub make and delete is there and gone
// although 300 Applications have another status all the time; in virtual time, at once.
func TestScenario16_StatusesThatFlap(t *testing.T) {
	playOnEach(t, func(t *testing.T, f fabric) {
		const apps, probes = 300, 10
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		s.control.pause()
		w.start()
		for i := range apps {
			s.hub().set(fmt.Sprint("app-", i), resource.Spec, number(i))
		}
		w.agree()

		flaps := s.flap(apps)
		defer flaps()
		w.await(f.patience, "statuses flap", func() bool { return s.up.states.Load() > apps })
		soon := f.patience // elsewhere it depends on what else the machine has to do
		if f.virtual {
			soon = time.Second
		}
		var took []time.Duration
		for i := range probes {
			name, began := fmt.Sprint("probe-", i), time.Now()
			s.hub().set(name, resource.Spec, number(i))
			w.await(soon, "it is made", func() bool { return s.here().has(name) })
			made := time.Now()
			s.hub().delete(name)
			w.await(soon, "it is gone", func() bool { return !s.here().has(name) })
			took = append(took, made.Sub(began), time.Since(made))
		}
		slices.Sort(took)
		t.Logf("half within %v, all within %v, of %d statuses", took[len(took)/2], took[len(took)-1], s.up.states.Load())
		flaps()
		w.agree()
	})
}

// flap has all Applications have another status all the time, as fast as the hub learns of
// them, until the function that it returns is called.
func (s *spoke) flap(apps int) (stop func()) {
	enough := make(chan struct{})
	var flapping sync.WaitGroup
	flapping.Go(func() {
		round := time.NewTicker(50 * time.Millisecond)
		defer round.Stop()
		for n := 0; ; {
			if last := s.hub().n(fmt.Sprint("app-", apps-1), resource.Status); n == 0 || last == n {
				n++
				for i := range apps {
					s.here().set(fmt.Sprint("app-", i), resource.Status, number(n))
				}
			}
			select {
			case <-round.C:
			case <-enough:
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(enough)
		flapping.Wait()
	})
}
