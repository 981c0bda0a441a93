package transport

import (
	"context"
	"fmt"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/stretchr/testify/require"
)

func value(key, digest string, at uint64) Delivery {
	return Delivery{Event: Value, Message: Message{Key: key, Digest: digest}, At: at}
}

// all returns what is to be received now, as short texts.
func all(t *testing.T, i *Inbox) (out []string) {
	t.Helper()
	for {
		d, ok, err := i.next(t.Context())
		require.NoError(t, err)
		if !ok {
			return out
		}
		require.NotNil(t, d.Ack)
		d.Ack()
		switch d.Event {
		case Value:
			out = append(out, d.Message.Key+d.Message.Digest)
		case Up:
			out = append(out, "up "+d.Presence.Process)
		default:
			out = append(out, d.Event.String())
		}
	}
}

func TestInboxHoldsTheLastValueOfEachKey(t *testing.T) {
	i := NewInbox()
	i.Put(value("a", "1", 1))
	i.Put(value("b", "1", 2))
	i.Put(value("a", "3", 4))
	i.Put(value("a", "2", 3)) // it is older
	require.Equal(t, []string{"a3", "b1"}, all(t, i))
	i.Put(value("a", "4", 5))
	require.Equal(t, []string{"a4"}, all(t, i))
	require.Empty(t, all(t, i))
}

func TestInboxTellsOfNothingElseBeforeReplayed(t *testing.T) {
	i := NewInbox()
	i.There(&Presence{Process: "p"})
	i.LogLost()
	i.Put(value("a", "1", 1))
	require.Equal(t, []string{"a1"}, all(t, i))
	i.Put(value("b", "1", 2))
	i.Replayed()
	i.Put(value("c", "1", 3))
	i.Put(value("b", "2", 4))
	require.Equal(t, []string{"b2", "replayed", "log-lost", "up p", "c1"}, all(t, i))
	require.Empty(t, all(t, i))
}

func TestInboxTellsWhoIsThereInTurns(t *testing.T) {
	i := NewInbox()
	i.Replayed()
	require.Equal(t, []string{"replayed"}, all(t, i))
	i.There(&Presence{Process: "p"})
	i.There(nil)
	require.Empty(t, all(t, i), "nobody has seen it")
	i.There(&Presence{Process: "p"})
	require.Equal(t, []string{"up p"}, all(t, i))
	i.There(nil)
	i.There(&Presence{Process: "p"})
	require.Equal(t, []string{"down", "up p"}, all(t, i), "it is another connection")
	i.There(&Presence{Process: "q"})
	i.Put(value("a", "1", 1))
	require.Equal(t, []string{"down", "up q", "a1"}, all(t, i))
	i.There(nil)
	require.Equal(t, []string{"down"}, all(t, i))
}

func TestInboxWakesItsReader(t *testing.T) {
	i := NewInbox()
	got := make(chan string)
	go func() {
		for {
			d, err := i.Receive(context.Background())
			if err != nil {
				got <- err.Error()
				return
			}
			got <- d.Event.String() + d.Message.Key
		}
	}()
	i.Put(value("a", "1", 1))
	require.Equal(t, "valuea", <-got)
	i.Replayed()
	require.Equal(t, "replayed", <-got)
	i.Close()
	require.Equal(t, ErrClosed.Error(), <-got)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := NewInbox().Receive(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestLogHoldsWhatItMayShow(t *testing.T) {
	var l Log
	message := func(key, digest string) Message {
		e := event.New()
		e.SetID(key)
		require.NoError(t, e.SetData("text/plain", []byte("data")))
		return Message{Key: key, Digest: digest, Event: e}
	}
	m := message("a", "1")
	l.Put(m)
	require.Equal(t, "data", string(m.Event.Data()))
	l.Put(message("b", "1"))
	l.Put(message("$a", "1"))
	l.Put(message("b", ""))
	require.Len(t, l.Rows, 2)
	require.Empty(t, l.Rows["a"].Event.Data())
	require.Equal(t, "a", l.Rows["a"].Event.ID())
	require.Equal(t, "data", string(l.Rows["$a"].Event.Data()))
}

func TestFits(t *testing.T) {
	for n, want := range map[int]error{MaxMessage: nil, MaxMessage + 1: ErrTooLarge} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			require.ErrorIs(t, Message{Event: event.Event{DataEncoded: make([]byte, n)}}.Fits(), want)
		})
	}
}
