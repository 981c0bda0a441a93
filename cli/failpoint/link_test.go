package failpoint_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/cli/failpoint"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

const agent = "agent"

// A side runs a process of one side, and returns its link.
type side func(*testing.T, *memlink.Network, *failpoint.Trap) transport.Link

var peers = map[string]string{"principal": agent, agent: "principal"}

// sides are the principal and an agent; a nil trap wraps nothing.
var sides = map[string]side{
	"principal": func(t *testing.T, n *memlink.Network, trap *failpoint.Trap) transport.Link {
		var h transport.Hub = n.Hub(transport.Presence{})
		if trap != nil {
			h = trap.Hub(h)
		}
		go h.Run(t.Context())
		l, err := h.Link(t.Context(), agent)
		require.NoError(t, err)
		return l
	},
	agent: func(t *testing.T, n *memlink.Network, trap *failpoint.Trap) transport.Link {
		var d transport.Dialer = n.Agent(agent, transport.Presence{})
		if trap != nil {
			d = trap.Dialer(d)
		}
		l, err := d.Dial(t.Context())
		require.NoError(t, err)
		return l
	},
}

// TestSendersDieAtTheirPoints shows what a log holds when its writer has died at the second
// of two acts of each kind.
func TestSendersDieAtTheirPoints(t *testing.T) {
	cases := map[failpoint.Point]string{
		failpoint.BeforeSend:    "a=1",
		failpoint.AfterSend:     "a=1 b=1",
		failpoint.BeforeDeclare: "$m=1 a=1 b=1",
		failpoint.AfterDeclare:  "$m=2 a=1 b=1",
		failpoint.BeforeErase:   "$m=2 b=1",
		failpoint.AfterErase:    "$m=2",
	}
	eachSide(t, memlink.Config{Keeps: true}, cases, func(t *testing.T, n *memlink.Network, name string, point failpoint.Point, want string) {
		l := sides[name](t, n, trap(t, point))
		send := func(key, digest string) func() {
			return func() { require.NoError(t, l.Send(t.Context(), message(key, digest))) }
		}
		done := dies(send("a", "1"), send("b", "1"), send("$m", "1"), send("$m", "2"), send("a", ""), send("b", ""))
		require.Less(t, done, 6, "it has died")
		log, err := sides[name](t, n, nil).Log(t.Context())
		require.NoError(t, err)
		var held []string
		for k, m := range log.Rows {
			held = append(held, fmt.Sprintf("%s=%s", k, m.Digest))
		}
		slices.Sort(held)
		require.Equal(t, want, strings.Join(held, " "))
	})
}

// TestReadersDieAtTheirPoints shows what a reader was given before it died at the second
// value, and what the next one is given again because it was not acked.
func TestReadersDieAtTheirPoints(t *testing.T) {
	cases := map[failpoint.Point]string{
		failpoint.Receive:   "given a, given again b",
		failpoint.BeforeAck: "given a b, given again b",
		failpoint.AfterAck:  "given a b, given again ",
	}
	eachSide(t, memlink.Config{}, cases, func(t *testing.T, n *memlink.Network, name string, point failpoint.Point, want string) {
		l, writer := sides[name](t, n, trap(t, point)), sides[peers[name]](t, n, nil)
		for _, k := range []string{"a", "b"} {
			require.NoError(t, writer.Send(t.Context(), message(k, "1")))
			synctest.Wait()
		}
		var given, again []string
		require.Zero(t, dies(func() { read(t, l, &given) }), "it has died")
		read(t, sides[name](t, n, nil), &again)
		require.Equal(t, want, fmt.Sprintf("given %s, given again %s", strings.Join(given, " "), strings.Join(again, " ")))
	})
}

// read takes in values until none has come for a minute, and notes their keys.
func read(t *testing.T, l transport.Link, keys *[]string) {
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		d, err := l.Receive(ctx)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return
		}
		if d.Event == transport.Value {
			*keys = append(*keys, d.Message.Key)
		}
		d.Ack()
	}
}

// eachSide plays each case on each side, in virtual time.
func eachSide(
	t *testing.T, c memlink.Config, cases map[failpoint.Point]string,
	play func(t *testing.T, n *memlink.Network, name string, point failpoint.Point, want string),
) {
	for _, point := range slices.Sorted(maps.Keys(cases)) {
		for name := range sides {
			t.Run(fmt.Sprint(point, "/", name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { play(t, memlink.New(c), name, point, cases[point]) })
			})
		}
	}
}

func message(key, digest string) transport.Message {
	e := event.New()
	e.SetID(key + digest)
	e.SetSource("/test")
	e.SetType("test")
	return transport.Message{Key: key, Digest: digest, Event: e}
}
