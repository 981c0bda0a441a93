package inquiry_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// An agent answers over pipes, in the bubble.
type agent struct {
	objects []resource.Object
	err     error
	book    *ledger.Book
	mu      sync.Mutex
	retried []string
	changed []string
}

func (a *agent) config() inquiry.Config {
	return inquiry.Config{
		Objects: func(context.Context) ([]resource.Object, error) { return a.objects, a.err },
		Letters: inquiry.Desk{Book: a.book, Again: func(_ context.Context, key string) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			if strings.HasPrefix(key, "$") {
				return errors.New("it is no object's")
			}
			a.retried = append(a.retried, key)
			return nil
		}},
		Standing: func(_ context.Context, has string) inquiry.Standing {
			return inquiry.Standing{InStep: true, Rows: 3, Error: "disk is full", Has: has}
		},
		Changed: func(what string, l ledger.Letter) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.changed = append(a.changed, what+" "+l.Key)
		},
	}
}

// ask runs f in a bubble with a client of what serve does with each stream.
func ask(t *testing.T, serve func(net.Conn), f func(t *testing.T, c *inquiry.Client)) {
	synctest.Test(t, func(t *testing.T) {
		f(t, inquiry.NewClient(func(context.Context) (net.Conn, error) {
			here, there := net.Pipe()
			go serve(there)
			return here, nil
		}))
	})
}

// over serves a handler on one stream.
func over(h http.Handler) func(net.Conn) {
	return func(c net.Conn) {
		s := &http.Server{Handler: h}
		s.SetKeepAlivesEnabled(false)
		_ = s.Serve(&once{conn: c, shut: make(chan struct{})})
	}
}

// once is a listener to which one stream comes; it is closed when that is.
type once struct {
	conn net.Conn
	shut chan struct{}
}

func (o *once) Accept() (net.Conn, error) {
	if c := o.conn; c != nil {
		o.conn = nil
		return closing{c, o.shut}, nil
	}
	<-o.shut
	return nil, net.ErrClosed
}
func (o *once) Close() error   { return nil }
func (o *once) Addr() net.Addr { return &net.UnixAddr{} }

type closing struct {
	net.Conn
	shut chan struct{}
}

func (c closing) Close() error {
	select {
	case <-c.shut:
	default:
		close(c.shut)
	}
	return c.Conn.Close()
}

func app(name string) resource.Key { return resource.Key{Kind: resource.Application, Name: name} }

func long(what string) string { return `{"a":"` + strings.Repeat(what, 100) + `"}` }

func copied(name string) resource.Object {
	o := resource.Object{
		Key: app(name), UID: "uid-" + name, Version: "7", Origin: resource.Origin{UID: "of-" + name, By: "hub-1"}, Ours: `{"labels":{"team":""}}`,
	}
	o.Parts[resource.Spec], o.Parts[resource.Status], o.Parts[resource.Meta] = long("x"), `{}`, `{"labels":{"team":"a<b"}}`
	return o
}

func same(o resource.Object) resource.Object { return o }

func TestObjectsTravelWholeOrBrief(t *testing.T) {
	stranger := copied("own")
	stranger.Origin = resource.Origin{}
	odd := resource.Object{Key: app("odd"), UID: "uid-odd", Origin: resource.Origin{UID: "x", By: "y"}, Excluded: true, Deleting: true}
	a := &agent{book: ledger.InMemory().Book("principal"), objects: []resource.Object{copied("a"), copied("b"), odd, stranger}}
	for _, strangers := range []bool{true, false} {
		config := a.config()
		config.Strangers = strangers
		ask(t, over(inquiry.Handler(config)), func(t *testing.T, c *inquiry.Client) {
			want := make([]resource.Object, 4)
			copy(want, a.objects)
			for i := range want {
				want[i].Version = "" // means nothing elsewhere
			}
			if strangers {
				want[3] = resource.Object{Key: app("own"), UID: "uid-own"}
			}
			got, err := c.Objects(t.Context(), false, same)
			require.NoError(t, err)
			require.Equal(t, want, got)
			got, err = c.Objects(t.Context(), true, same)
			require.NoError(t, err)
			for i, o := range want {
				require.Equal(t, inquiry.Brief(o), got[i])
			}
			require.Less(t, len(got[0].Parts[resource.Spec]), 80)
			got, err = c.Whole(t.Context(), []resource.Key{app("b"), app("gone")})
			require.NoError(t, err)
			require.Equal(t, want[1:2], got)
			_, err = c.Whole(t.Context(), make([]resource.Key, inquiry.MaxKeys+1))
			require.ErrorContains(t, err, "too many")
		})
	}
}

func TestBriefStandsForParts(t *testing.T) {
	a, b := copied("a"), copied("a")
	b.Parts[resource.Spec] = long("y")
	require.NotEqual(t, inquiry.Brief(a).Parts, inquiry.Brief(b).Parts)
	require.Equal(t, inquiry.Brief(a), inquiry.Brief(inquiry.Brief(a)))
	require.Equal(t, a.Parts[resource.Meta], inquiry.Brief(a).Parts[resource.Meta])
	require.Equal(t, `{}`, inquiry.Brief(a).Parts[resource.Status], "what is short stays as it is")
}

func TestTenThousandObjects(t *testing.T) {
	a := &agent{book: ledger.InMemory().Book("principal")}
	for i := range 10_000 {
		a.objects = append(a.objects, copied(fmt.Sprint("app-", i)))
	}
	ask(t, over(inquiry.Handler(a.config())), func(t *testing.T, c *inquiry.Client) {
		got, err := c.Objects(t.Context(), true, same)
		require.NoError(t, err)
		require.Len(t, got, 10_000)
	})
}

func TestAStoreThatCannotBeRead(t *testing.T) {
	a := &agent{book: ledger.InMemory().Book("principal"), err: errors.New("verify: read store: forbidden")}
	ask(t, over(inquiry.Handler(a.config())), func(t *testing.T, c *inquiry.Client) {
		_, err := c.Objects(t.Context(), true, same)
		require.EqualError(t, err, "inquiry: ask the agent: verify: read store: forbidden")
		st, err := c.Standing(t.Context(), "2-ab")
		require.NoError(t, err)
		require.Equal(t, inquiry.Standing{InStep: true, Rows: 3, Error: "disk is full", Has: "2-ab"}, st)
	})
}

func TestLettersAreSeenTo(t *testing.T) {
	a := &agent{book: ledger.InMemory().Book("principal")}
	for _, key := range []string{"Application/a", "Application/b", "$stray"} {
		_, err := a.book.Put(ledger.Letter{Key: key, Cause: ledger.Refused, Reason: "quota", Event: []byte(`{"id":"1"}`)})
		require.NoError(t, err)
	}
	ids := map[string]string{}
	for _, l := range a.book.All() {
		ids[l.Key] = l.ID
	}
	ask(t, over(inquiry.Handler(a.config())), func(t *testing.T, c *inquiry.Client) {
		list, err := c.List(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 3)
		for _, l := range list {
			require.Empty(t, l.Event)
		}
		one, err := c.Get(t.Context(), ids["Application/a"])
		require.NoError(t, err)
		want, _ := a.book.Get(one.ID)
		require.Equal(t, want, one)

		require.NoError(t, c.Retry(t.Context(), one.ID))
		require.ErrorContains(t, c.Retry(t.Context(), ids["$stray"]), "it is no object's")
		require.NoError(t, c.Drop(t.Context(), ids["$stray"]))
		require.Equal(t, []string{"Application/a"}, a.retried)
		require.Equal(t, []string{"retry Application/a", "drop $stray"}, a.changed)
		require.Equal(t, 2, a.book.Count())

		for _, f := range []func() error{
			func() error { _, err := c.Get(t.Context(), "../objects"); return err },
			func() error { return c.Retry(t.Context(), "0123456789ab") },
			func() error { return c.Drop(t.Context(), ids["$stray"]) },
		} {
			require.ErrorIs(t, f(), inquiry.ErrNoLetter)
		}
	})
}
