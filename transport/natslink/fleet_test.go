package natslink

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
)

// What each leaf of the fleet publishes, and when all of it must have arrived.
const (
	fleetRows = 50
	fleetTime = 10 * time.Second
)

// TestFleetStartsAndPublishesAtOnce is the situation in which sources of JetStream lose
// what a leaf says first: every row must be in the hub's copy soon after. The fleet is 300,
// and smaller with the race detector.
func TestFleetStartsAndPublishesAtOnce(t *testing.T) {
	p := tlstest.NewAuthority(t)
	c := hubConfig(t, p)
	c.Heartbeat = DefaultHeartbeat
	c.Logger = zap.NewNop() // a busy machine causes thousands of warnings
	h, _ := startHub(t, c)
	connect := addr(t, h)
	hubs := make([]transport.Link, fleetSize)
	leaves := make([]*Leaf, fleetSize)
	for i := range fleetSize {
		name := fmt.Sprintf("agent-%03d", i)
		l, err := h.Link(t.Context(), name)
		require.NoError(t, err)
		hubs[i] = l
		require.NoError(t, l.Send(t.Context(), value("down", name)))
		lc := leafConfig(t, p, name, connect)
		lc.Heartbeat, lc.Logger = DefaultHeartbeat, zap.NewNop()
		leaves[i], err = NewLeaf(lc)
		require.NoError(t, err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	agents := make([]transport.Link, fleetSize)
	var starts errgroup.Group
	for i, leaf := range leaves {
		starts.Go(func() error {
			l, err := leaf.Dial(ctx)
			if err != nil {
				return err
			}
			agents[i] = l
			for k := range fleetRows {
				if err := l.Send(ctx, value(fmt.Sprintf("kind/ns/name-%d", k), "first")); err != nil {
					return err
				}
			}
			return nil
		})
	}
	defer func() { closeAll(t, agents) }()
	require.NoError(t, starts.Wait())

	// A machine that has to start all of them takes its time for that, which is not what is
	// promised. The clock starts when all have published and all are connected.
	ready := time.Now()
	var reads errgroup.Group
	ups := make(chan time.Time, 2*fleetSize)
	for i := range fleetSize {
		reads.Go(func() error { return receiveAll(ctx, hubs[i], fleetRows, ups) })
		reads.Go(func() error { return receiveAll(ctx, agents[i], 1, ups) })
	}
	require.NoError(t, reads.Wait())
	arrived := time.Now()
	for range 2 * fleetSize {
		if up := <-ups; up.After(ready) {
			ready = up
		}
	}
	require.Less(t, arrived.Sub(ready), fleetTime)
	for i := range fleetSize {
		s, err := h.State(ctx, fmt.Sprintf("agent-%03d", i))
		require.NoError(t, err)
		require.Equal(t, uint64(fleetRows), s.Copy.Messages)
		require.Equal(t, uint64(fleetRows), s.Copy.LastSeq, "a row came twice")
	}
	t.Logf("%d rows of %d agents were in the hub's copies %v after all were connected and had published",
		fleetRows*fleetSize, fleetSize, max(0, arrived.Sub(ready)).Round(time.Millisecond))
}

// receiveAll receives until values of n keys have come and the peer is up, and tells when
// it came up.
func receiveAll(ctx context.Context, l transport.Link, n int, ups chan<- time.Time) error {
	up := false
	for seen := map[string]bool{}; len(seen) < n || !up; {
		d, err := l.Receive(ctx)
		if err != nil {
			return fmt.Errorf("link to %s: %d of %d: %w", l.Peer(), len(seen), n, err)
		}
		switch {
		case d.Event == transport.Value:
			seen[d.Message.Key] = true
		case d.Event == transport.Up && !up:
			up = true
			ups <- time.Now()
		}
	}
	return nil
}

func closeAll(t *testing.T, links []transport.Link) {
	var all errgroup.Group
	for _, l := range links {
		if l != nil {
			all.Go(l.Close)
		}
	}
	require.NoError(t, all.Wait())
}
