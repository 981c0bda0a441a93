package kubestore

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/e2e/stack/stacktest"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// TestARestoredClusterIsNoticed restores a cluster's etcd from a snapshot while a store
// follows it: soon, and not when the cluster is as old again, the watch says so, and the
// next one shows what there is.
func TestARestoredClusterIsNoticed(t *testing.T) {
	c := cluster{t, stacktest.Start(t, stack.Config{Clusters: []stack.ClusterConfig{{Name: "past", CRDs: true, Etcd: true}}}).Cluster("past")}
	s, p := c.store(t)
	u := users{t, c.Dynamic(), p}
	ns := c.namespace()
	spell := func(name, text string) {
		u.Edit(app(ns, name).Key, func(o *resource.Object) { o.Parts[resource.Spec], o.Parts[resource.Meta] = spec, label(text) })
	}
	spell("old", "before")
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	require.NoError(t, c.Snapshot(t.Context(), snapshot))
	rewound := make(chan error, 1)
	shown := make(chan backend.Event, 100)
	run(t, func(ctx context.Context) error {
		rewound <- s.Watch(ctx, backend.In(ns), func(e backend.Event) error { shown <- e; return nil })
		<-ctx.Done()
		return context.Cause(ctx)
	})
	for range 2 { // with Synced
		<-shown
	}
	// An API server that starts writes some objects of its own: the cluster must have come
	// further than these bring it again before it is looked at.
	for i := range 300 {
		spell("old", fmt.Sprint("since-", i))
		<-shown
	}
	spell("new", "since")
	<-shown

	require.NoError(t, c.Restore(t.Context(), snapshot))
	select {
	case err := <-rewound:
		require.ErrorIs(t, err, backend.ErrRewound)
	case <-time.After(time.Minute):
		require.Fail(t, "nobody has noticed")
	}
	require.Empty(t, shown, "nothing that is no change")
	listed, stop := context.WithCancel(t.Context())
	var now []resource.Object
	err := s.Watch(listed, backend.In(ns), func(e backend.Event) error {
		if e.Synced != nil {
			stop()
			return nil
		}
		now = append(now, *e.Put)
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, now, 1)
	require.Equal(t, label("before"), now[0].Parts[resource.Meta])
}
