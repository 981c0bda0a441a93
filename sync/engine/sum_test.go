package engine_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// TestABusyLogIsSummedUpSeldom: at once when it begins to be busy, then at every fourth Tick, and once
// more when it is quiet again.
func TestABusyLogIsSummedUpSeldom(t *testing.T) {
	hub := engine.New(engine.Config{Side: resource.Principal, Self: "hub", Peer: "spoke"})
	now := time.Unix(1_700_000_000, 0)
	hub.Step(now, engine.Opened{Epoch: "hub's", Keeps: true})
	hub.Step(now, engine.Tick{})
	changes := 0
	change := func() {
		changes++
		hub.Step(now, engine.Changed{Object: resource.Object{
			Key: app(0), UID: "p1", Version: strconv.Itoa(changes), Parts: resource.Parts{resource.Spec: strconv.Itoa(changes)},
		}})
	}
	summedUp := func() bool {
		now = now.Add(time.Second)
		for _, a := range hub.Step(now, engine.Tick{}) {
			if m, ok := a.(engine.Send); ok && m.Message.Key == engine.ManifestKey {
				return true
			}
		}
		return false
	}
	var at []int
	for tick := 1; tick <= 12; tick++ {
		change()
		if summedUp() {
			at = append(at, tick)
		}
	}
	require.Equal(t, []int{1, 2, 6, 10}, at)
	require.True(t, summedUp(), "what came last is in no Manifest yet")
	require.False(t, summedUp())
	change()
	require.True(t, summedUp(), "it was quiet")

	for range 4 {
		change()
		summedUp()
	}
	hub.Step(now, engine.Unsent{Key: engine.ManifestKey})
	change()
	require.True(t, summedUp(), "the last may not be in the log")
}
