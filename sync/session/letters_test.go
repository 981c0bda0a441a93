package session_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// poison returns a message that no session can read.
func poison(name, typ string) transport.Message {
	ev := event.New()
	ev.SetID("poison")
	ev.SetSource("argocd-agent://somebody")
	ev.SetType(wire.Prefix + typ)
	ev.SetSubject("Application/ns/" + name)
	ev.SetExtension("protocolversion", "1")
	return transport.Message{Key: "Application/ns/" + name, Digest: "d", Event: ev}
}

// book gives a side's session a Book that outlives it.
func (s *side) book(b *ledger.Book) *ledger.Book {
	s.tune = func(c *session.Config) { c.Letters = b }
	return b
}

func TestAMessageThatCannotBeReadIsADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		book := r.spoke.book(ledger.InMemory().Book("hub"))
		r.start()
		settle(0)
		for i := range 1000 {
			r.hub.set(fmt.Sprint(i), resource.Spec, `{}`)
			if i == 500 {
				require.NoError(t, r.hub.link.Send(t.Context(), poison("poison", "rumour")))
			}
		}
		settle(time.Minute)
		require.Len(t, r.spoke.cluster.All(), 1000)
		require.True(t, r.spoke.Status().Connected)
		require.True(t, r.spoke.Status().Engine.InStep)
		require.Equal(t, 1, r.spoke.Status().DeadLetters)
		letter := book.All()[0]
		require.Equal(t, "Application/ns/poison", letter.Key)
		require.Equal(t, ledger.Unreadable, letter.Cause)
		require.Contains(t, letter.Reason, wire.ErrType.Error())
		require.Contains(t, string(letter.Event), `"id":"poison"`)

		r.hub.set("poison", resource.Spec, `{}`)
		settle(0)
		require.Empty(t, book.All(), "it is understood by now")
	})
}

// A spoilt link makes one row unreadable, as often as it comes.
type spoilt struct {
	transport.Link
	key string
}

func (s spoilt) Send(ctx context.Context, m transport.Message) error {
	if m.Key == s.key && !m.Tombstone() {
		m.Event.SetType(wire.Prefix + "rumour")
	}
	return s.Link.Send(ctx, m)
}

func TestARowThatIsNeverUnderstoodIsAskedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		book := r.spoke.book(ledger.InMemory().Book("hub"))
		r.hub.wrap = func(l transport.Link) transport.Link { return spoilt{l, "Application/ns/odd"} }
		r.start()
		r.hub.set("odd", resource.Spec, `{"n":1}`)
		r.hub.set("even", resource.Spec, `{"n":1}`)
		settle(time.Minute)
		require.Equal(t, `{"n":1}`, r.spoke.part("even", resource.Spec))
		require.Empty(t, r.spoke.part("odd", resource.Spec))
		require.True(t, r.spoke.Status().Engine.InStep, "all is known that can be")
		require.Equal(t, 1, book.Count())
		require.Contains(t, r.hub.part("odd", resource.Fault), "cannot be read")
		require.EqualValues(t, 1, book.Written())

		r.hub.cluster.Delete(app("odd"))
		settle(time.Second)
		require.Zero(t, book.Count())
	})
}

func TestAMessageOfNoObjectIsADeadLetterUntilTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, log := observer.New(zapcore.WarnLevel)
		book := ledger.InMemory().Book("hub")
		r := newRig(t)
		r.spoke.tune = func(c *session.Config) { c.Letters, c.Log = book, zap.New(core) }
		r.start()
		settle(0)
		stray := poison("poison", "state")
		stray.Key = "nonsense"
		require.NoError(t, r.hub.link.Send(t.Context(), stray))
		settle(time.Second)
		require.Equal(t, "nonsense", book.All()[0].Key)
		require.Equal(t, 1, log.FilterMessage("dead letter").Len())
		require.ErrorContains(t, r.spoke.Retry(t.Context(), "nonsense"), "it is no object's")
	})
}

func TestARefusedWriteIsADeadLetterUntilItIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "letters.db")
		disk, err := ledger.Open(file)
		require.NoError(t, err)
		r := newRig(t)
		book := r.spoke.book(disk.Book("hub"))
		strict := true
		r.spoke.cluster = memstore.New(memstore.Config{Name: "spoke", Admit: func(o resource.Object) error {
			if strict && o.Key.Name == "bad" {
				return errors.New("the webhook says no")
			}
			return nil
		}})
		r.spoke.store = r.spoke.cluster
		r.start()
		r.hub.set("bad", resource.Spec, `{"n":1}`)
		r.hub.set("good", resource.Spec, `{"n":1}`)
		settle(10 * time.Second)
		require.Equal(t, `{"n":1}`, r.spoke.part("good", resource.Spec))
		require.Contains(t, r.hub.part("bad", resource.Fault), "the webhook says no")
		letter := book.All()[0]
		require.Equal(t, ledger.Refused, letter.Cause)
		require.Contains(t, letter.Reason, "the webhook says no")
		require.Contains(t, string(letter.Event), `"spec":{"n":1}`)

		require.NoError(t, r.spoke.Retry(t.Context(), letter.Key))
		settle(time.Second)
		require.Equal(t, 1, book.Count(), "it is refused again")

		r.spoke.stop()
		r.spoke.start()
		settle(10 * time.Second)
		require.Equal(t, 1, book.Count(), "and by the next process, too")

		strict = false
		require.NoError(t, r.spoke.Retry(t.Context(), letter.Key))
		settle(10 * time.Second)
		require.Zero(t, book.Count())
		require.Equal(t, `{"n":1}`, r.spoke.part("bad", resource.Spec))
		require.Empty(t, r.hub.part("bad", resource.Fault))
		r.spoke.stop()
		require.NoError(t, disk.Close())
	})
}

func TestLettersOfAnEarlierProcessGoOnceAllIsRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		book := r.spoke.book(ledger.InMemory().Book("hub"))
		for _, key := range []string{"Application/ns/a", "nonsense"} {
			_, err := book.Put(ledger.Letter{Key: key, Cause: ledger.Refused, Reason: "long ago"})
			require.NoError(t, err)
		}
		r.start()
		r.hub.set("a", resource.Spec, `{}`)
		settle(10 * time.Second)
		require.Empty(t, book.All())
	})
}

func TestAnAgentThatIsAwayIsSaidToBeWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		r.hub.set("a", resource.Spec, `{}`)
		r.hub.set("b", resource.Spec, `{}`)
		r.hub.cluster.Edit(app("a"), func(o *resource.Object) {
			o.Parts[resource.Meta] = resource.Metadata{Finalizers: []string{"resources-finalizer.argocd.argoproj.io"}}.Text()
		})
		settle(10 * time.Second)
		r.spoke.stop()
		settle(time.Second)
		r.hub.cluster.Delete(app("a"))
		settle(5 * time.Second)
		require.Empty(t, r.hub.part("a", resource.Pending), "it may be back in a moment")
		settle(30 * time.Second)
		require.Contains(t, r.hub.part("a", resource.Pending), "the deletion waits")
		require.Empty(t, r.hub.part("b", resource.Pending), "nothing of it waits")
		r.hub.set("b", resource.Operation, `{"sync":{}}`)
		settle(time.Second)
		require.Contains(t, r.hub.part("b", resource.Pending), "the operation waits")
		r.spoke.start()
		settle(30 * time.Second)
		r.spoke.cluster.Edit(app("a"), func(o *resource.Object) { o.Parts[resource.Meta] = "" }) // Argo CD is done
		settle(time.Second)
		_, there := r.hub.cluster.Get(app("a"))
		require.False(t, there)
		require.Empty(t, r.hub.part("b", resource.Pending))
	})
}
