package natslink

import (
	"context"
	"testing"

	cejs "github.com/cloudevents/sdk-go/protocol/nats_jetstream/v2"
	"github.com/cloudevents/sdk-go/v2/client"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// TestAStockConsumerReadsCloudEvents: the consumer of the CloudEvents SDK, which knows nothing
// of this package, reads both streams of an agent from the hub's server, and what it reads are
// the events that were sent.
func TestAStockConsumerReadsCloudEvents(t *testing.T) {
	h, _, hub, agent := joined(t)
	sent := map[string]transport.Message{}
	for _, key := range []string{"Application/team-a/guestbook", "AppProject/argocd/default.v1", "$manifest"} {
		sent[key] = value(key, "text of "+key)
	}
	gone := value("Application/team-a/gone", "")
	gone.Digest, gone.Event.DataEncoded = "", nil
	sent[gone.Key] = gone
	for _, m := range sent {
		require.NoError(t, hub.Send(t.Context(), m))
		require.NoError(t, agent.Send(t.Context(), m))
	}
	for seen := map[string]bool{}; len(seen) < len(sent); {
		await(t, hub, func(d transport.Delivery) bool {
			return d.Event == transport.Value && !seen[d.Message.Key] && add(seen, d.Message.Key)
		})
	}
	n := names{"north"}
	for stream, subject := range map[string]string{n.upCopy(): n.up() + ">", n.downLog(): n.down() + ">"} {
		read := map[string]event.Event{}
		for _, e := range stock(t, h, stream, subject, len(sent)) {
			require.NoError(t, e.Validate())
			read[e.ID()] = e
		}
		for _, m := range sent {
			got := read[m.Event.ID()]
			require.Equal(t, m.Event.Type(), got.Type())
			require.Equal(t, m.Event.Source(), got.Source())
			require.Equal(t, m.Event.DataContentType(), got.DataContentType())
			require.Equal(t, string(m.Event.Data()), string(got.Data()))
		}
	}
}

// add puts a key into a set.
func add(set map[string]bool, key string) bool {
	set[key] = true
	return true
}

// stock returns the first n events that the SDK's consumer reads of a stream.
func stock(t *testing.T, h *Hub, stream, subject string, n int) (all []event.Event) {
	nc, err := h.node.connect(storeUser, "_INBOX_stock")
	require.NoError(t, err)
	defer nc.Close()
	consumer, err := cejs.NewConsumerFromConn(nc, stream, subject, nil, []nats.SubOpt{nats.BindStream(stream)})
	require.NoError(t, err)
	c, err := client.New(consumer, client.WithPollGoroutines(1))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events := make(chan event.Event)
	ended := make(chan error, 1)
	go func() {
		ended <- c.StartReceiver(ctx, func(e event.Event) { events <- e })
	}()
	for range n {
		all = append(all, <-events)
	}
	cancel()
	require.NoError(t, <-ended)
	return all
}
