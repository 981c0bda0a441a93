package principal

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// lie has a process in an agent's place, which stays there, say a row of k.
func (y *yard) lie(agent string, k resource.Key, r engine.Record) {
	link, err := y.net.Agent(agent, presence()).Dial(y.t.Context())
	require.NoError(y.t, err)
	m, err := wire.Encode(engine.Message{Key: k, Body: r}, wire.Envelope{ID: fmt.Sprint(time.Now().UnixNano()), Source: agent, Time: time.Now()})
	require.NoError(y.t, err)
	require.NoError(y.t, link.Send(y.t.Context(), m))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			d, err := link.Receive(ctx)
			if err != nil {
				return
			}
			if d.Event == transport.Value {
				d.Ack()
			}
		}
	}()
	y.spokes[agent].stop = func() { cancel(); <-ended; _ = link.Close() }
}

// An agent that had an Application knows its UID, and cannot take it from the one that has it
// by saying that it has it again.
func TestAnAgentThatHasGivenUpAnApplicationCannotClaimIt(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		lone(t, func(y *yard, k resource.Key) {
			o, _ := y.hub.Get(k)
			y.aimAt(k, "b")
			y.settle()
			require.Equal(t, "b", y.where(k))
			if restarts {
				y.restart(time.Second)
				y.settle()
			}
			y.leave(y.spokes["a"])
			y.lie("a", k, engine.Record{UID: o.UID, By: "a", Parts: resource.Parts{resource.Status: `{"health":{}}`}})
			y.settle()
			require.Empty(t, y.part(k, resource.Pending))
			edit(y.hub, k, resource.Meta, resource.Metadata{Labels: map[string]string{"new": "yes"}}.Text())
			y.settle()
			c, _ := y.spokes["b"].store.Get(k)
			require.Contains(t, c.Parts[resource.Meta], "new", "b is told no more")
		})
	}
}

// An agent has no more than a few words for why it keeps its own copy.
func TestAnAgentThatSaysWhyAtLength(t *testing.T) {
	lone(t, func(y *yard, k resource.Key) {
		o, _ := y.hub.Get(k)
		y.leave(y.spokes["a"])
		y.aimAt(k, "b")
		y.settle()
		why := resource.Parts{resource.Fault: strings.Repeat("because… ", 1<<16)}
		y.lie("a", k, engine.Record{UID: o.UID, By: "a", Phase: engine.Gone, Parts: why})
		y.settle()
		said := y.part(k, resource.Pending)
		require.Contains(t, said, "agent a keeps its own copy: because… because…")
		require.True(t, utf8.ValidString(said))
		require.Less(t, len(said), 600)
	})
}
