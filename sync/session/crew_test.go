package session

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A shift is a crew whose workers wait to be told that they are done.
type shift struct {
	*crew[string]
	begun  chan string
	finish chan struct{}
}

func newShift(limit int) *shift {
	s := &shift{begun: make(chan string, 100), finish: make(chan struct{})}
	s.crew = newCrew(limit, func(ctx context.Context, v string) {
		s.begun <- v
		select {
		case <-s.finish:
		case <-ctx.Done():
		}
	})
	return s
}

// drain returns what was begun by now.
func (s *shift) drain() (out []string) {
	synctest.Wait()
	for {
		select {
		case v := <-s.begun:
			out = append(out, v)
		default:
			return out
		}
	}
}

func key(name string) resource.Key {
	return resource.Key{Kind: resource.Application, Namespace: "ns", Name: name}
}

func TestACrewTakesTheNextKeyWithItsLastValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newShift(2)
		for _, v := range []string{"a1", "b1", "c1", "d1", "c2", "c3", "e1"} {
			s.put(ctx, key(v[:1]), v)
		}
		require.ElementsMatch(t, []string{"a1", "b1"}, s.drain(), "no more at once than there are workers")
		require.Len(t, s.last, 3)
		s.finish <- struct{}{}
		require.Equal(t, []string{"c3"}, s.drain(), "first come first served, the last value only")
		s.finish <- struct{}{}
		require.Equal(t, []string{"d1"}, s.drain())
		cancel()
		s.wait()
		require.Equal(t, map[resource.Key]string{key("e"): "e1"}, s.last, "what was not begun is left")
	})
}

func TestACrewHasOneOfEachKeyInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newShift(8)
		s.put(ctx, key("a"), "a1")
		require.Equal(t, []string{"a1"}, s.drain())
		s.put(ctx, key("a"), "a2")
		s.put(ctx, key("a"), "a3")
		s.put(ctx, key("b"), "b1")
		require.Equal(t, []string{"b1"}, s.drain(), "a busy key holds up no other")
		s.finish <- struct{}{}
		s.finish <- struct{}{}
		require.Equal(t, []string{"a3"}, s.drain())
		cancel()
		s.wait()
	})
}

func TestACrewWithoutWorkHasNoWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShift(64)
		for i := range 10 {
			s.put(t.Context(), key(fmt.Sprint(i)), "v")
		}
		synctest.Wait()
		require.Equal(t, 10, s.workers)
		for range 10 {
			s.finish <- struct{}{}
		}
		s.wait() // the context is not done: they have gone by themselves
		require.Zero(t, s.workers)
		require.Len(t, s.drain(), 10)
	})
}
