package session_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// A slowLink takes its time to read its log, once it is told to.
type slowLink struct {
	transport.Link
	slow *atomic.Bool
}

func (l slowLink) Log(ctx context.Context) (transport.Log, error) {
	if l.slow.Load() {
		time.Sleep(10 * time.Second)
	}
	return l.Link.Log(ctx)
}

// TestNothingIsToldOfARestoredStoreBeforeItsAge: a store goes back in time under a session
// that runs, and the log is read late. What is missing since must not be told, as it would
// be by a Manifest of before, before it is told that the store is younger now.
func TestNothingIsToldOfARestoredStoreBeforeItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var slow atomic.Bool
		r.hub.wrap = func(l transport.Link) transport.Link { return slowLink{l, &slow} }
		r.start()
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			r.hub.set(name, resource.Spec, `{"n":1}`)
		}
		old := r.hub.cluster.Snapshot()
		r.hub.set("young", resource.Spec, `{"n":1}`)
		settle(10 * time.Second)
		slow.Store(true)
		r.hub.cluster.Restore(old)
		settle(time.Minute)
		require.Equal(t, `{"n":1}`, r.spoke.part("young", resource.Spec), "kept until somebody approves")
		held := r.hub.Status().Engine.Theirs
		require.Len(t, held, 1)
		require.Equal(t, app("young"), held[0].Key)
	})
}
