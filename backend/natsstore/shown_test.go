package natsstore

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// TestWritesAreShownWhileTheBucketIsLookedAt: what the server says of the bucket is ahead of
// what it has sent, and no Write takes that for having been shown.
func TestWritesAreShownWhileTheBucketIsLookedAt(t *testing.T) {
	h := startHost(t)
	c := h.config()
	c.Check = time.Millisecond
	s, err := New(c)
	require.NoError(t, err)
	h.run(s)
	var mu sync.Mutex
	last, synced := map[resource.Key]string{}, make(chan struct{})
	var watching errgroup.Group
	ctx, stop := context.WithCancel(t.Context())
	watching.Go(func() error {
		return s.Watch(ctx, backend.Scope{}, func(e backend.Event) error {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case e.Put != nil:
				last[e.Put.Key] = e.Put.Version
			case e.Synced != nil:
				close(synced)
			}
			return nil
		})
	})
	<-synced
	var writing errgroup.Group
	for w := range 32 {
		writing.Go(func() error {
			o := resource.Object{Key: resource.Key{Kind: resource.Application, Namespace: "one", Name: fmt.Sprint("app-", w)}}
			for n := range 60 {
				o.Parts[resource.Spec] = fmt.Sprintf(`{"n":%d}`, n)
				stored, err := s.Write(t.Context(), o)
				if err != nil {
					return err
				}
				mu.Lock()
				shown := last[o.Key]
				mu.Unlock()
				if shown != stored.Version {
					return fmt.Errorf("%s: version %s was written, and %q is shown", o.Key, stored.Version, shown)
				}
				o = stored
			}
			return nil
		})
	}
	require.NoError(t, writing.Wait())
	stop()
	require.Error(t, watching.Wait())
}
