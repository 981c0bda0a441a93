package session_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/seal"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

var repo = resource.Key{Kind: resource.Secret, Name: "repo"}

const password = `{"password":"aHVudGVyMg=="}`

// plant has a side keep a password.
func (s *side) plant(spec string) {
	s.cluster.Edit(repo, func(o *resource.Object) { o.Parts[resource.Spec] = spec })
}

func (s *side) planted() string {
	o, _ := s.cluster.Get(repo)
	return o.Parts[resource.Spec]
}

// rekey starts a side anew with another key.
func (s *side) rekey() {
	s.stop()
	var err error
	s.key, err = seal.New()
	require.NoError(s.r.t, err)
	s.start()
}

// A shy link keeps its side's key back until it is told to go on.
type shyLink struct {
	transport.Link
	mu   sync.Mutex
	held []transport.Message
	open bool
}

func (l *shyLink) Send(ctx context.Context, m transport.Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.Key == "$seal" && !l.open {
		l.held = append(l.held, m)
		return nil
	}
	return l.Link.Send(ctx, m)
}

func (l *shyLink) tell(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = true
	return l.Link.Send(ctx, l.held[len(l.held)-1])
}

func shy(s *side) *shyLink {
	l := &shyLink{}
	s.wrap = func(inner transport.Link) transport.Link { l.Link = inner; return l }
	return l
}

// TestASecretWaitsUntilTheAgentHasSaidItsKey, and all is well meanwhile.
func TestASecretWaitsUntilTheAgentHasSaidItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		l := shy(r.spoke)
		r.start()
		r.hub.plant(password)
		r.hub.set("a", resource.Spec, `{}`)
		settle(time.Minute)
		require.Empty(t, r.spoke.planted())
		require.Equal(t, `{}`, r.spoke.part("a", resource.Spec))
		for _, s := range []*side{r.hub, r.spoke} {
			require.True(t, s.Status().Engine.InStep)
			require.NoError(t, s.Status().Err)
			require.Zero(t, s.Status().DeadLetters)
		}
		require.NoError(t, l.tell(t.Context()))
		settle(time.Second)
		require.Equal(t, password, r.spoke.planted())
	})
}

// TestASealedRowWaitsForTheKeyOfItsWriter: nothing orders the two.
func TestASealedRowWaitsForTheKeyOfItsWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		l := shy(r.hub)
		book := r.spoke.book(ledger.InMemory().Book("hub"))
		r.start()
		r.hub.plant(`{"password":"b2xk"}`)
		settle(time.Second)
		r.hub.plant(password)
		settle(time.Second)
		require.Empty(t, r.spoke.planted())
		require.NoError(t, l.tell(t.Context()))
		settle(0)
		require.Equal(t, password, r.spoke.planted(), "at once")
		settle(time.Minute)
		require.Zero(t, book.Written(), "nobody was told of anything")
	})
}

func TestRestartsWithSecretsCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		r.hub.plant(password)
		settle(time.Minute)
		down, up := r.net.Traffic(agentName)
		for _, s := range []*side{r.hub, r.spoke} {
			s.stop()
			s.start()
			settle(time.Minute)
		}
		after, afterUp := r.net.Traffic(agentName)
		require.Equal(t, down, after)
		require.Equal(t, up, afterUp)
	})
}

// TestWithAnotherKeySecretsTravelAnew: whose key is another, nobody has to do anything, and
// no dead letter remains.
func TestWithAnotherKeySecretsTravelAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		books := []*ledger.Book{r.hub.book(ledger.InMemory().Book("spoke")), r.spoke.book(ledger.InMemory().Book("hub"))}
		r.start()
		r.hub.plant(password)
		settle(time.Minute)
		for _, s := range []*side{r.hub, r.spoke} {
			before, _ := r.net.Traffic(agentName)
			s.rekey()
			settle(time.Minute)
			after, _ := r.net.Traffic(agentName)
			require.Greater(t, after.Values, before.Values)
			require.Equal(t, password, r.spoke.planted())
			for _, s := range []*side{r.hub, r.spoke} {
				require.True(t, s.Status().Engine.InStep)
			}
			for _, b := range books {
				require.Empty(t, b.All())
			}
		}
		r.hub.plant(`{"password":"bmV3"}`)
		settle(time.Second)
		require.Equal(t, `{"password":"bmV3"}`, r.spoke.planted())
	})
}

// TestWhatIsSealedForSomebodyElseIsADeadLetter: the hub was told another key than the agent's.
func TestWhatIsSealedForSomebodyElseIsADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		l := shy(r.spoke)
		book := r.spoke.book(ledger.InMemory().Book("hub"))
		r.start()
		settle(time.Second)
		own := l.held[len(l.held)-1]
		other, err := seal.New()
		require.NoError(t, err)
		strange := own
		strange.Event = own.Event.Clone()
		strange.Event.DataEncoded = []byte(`{"public":"` + string(other.Public()) + `"}`)
		strange.Event.SetExtension("digest", string(resource.Sum(string(other.Public()), "")))
		strange.Digest = string(resource.Sum(string(other.Public()), ""))
		require.NoError(t, r.spoke.link.(*shyLink).Link.Send(t.Context(), strange))
		r.hub.plant(password)
		settle(time.Minute)
		require.Empty(t, r.spoke.planted())
		require.Len(t, book.All(), 1)
		letter := book.All()[0]
		require.Equal(t, ledger.Unreadable, letter.Cause)
		require.Contains(t, letter.Reason, seal.ErrOpen.Error())
		require.Contains(t, string(letter.Event), `"sealed"`)

		require.NoError(t, l.tell(t.Context()))
		settle(time.Minute)
		require.Equal(t, password, r.spoke.planted())
		require.Empty(t, book.All())
	})
}

// TestALetterOfASecretIsSealed, and what came in clear is in none.
func TestALetterOfASecretIsSealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.spoke.cluster = memstore.New(memstore.Config{Name: agentName, Admit: func(o resource.Object) error {
			return errors.New("it may not be here")
		}})
		r.spoke.store = r.spoke.cluster
		book := r.spoke.book(ledger.InMemory().Book("hub"))
		r.start()
		r.hub.plant(password)
		settle(time.Minute)
		require.Len(t, book.All(), 1)
		letter := book.All()[0]
		require.Equal(t, ledger.Refused, letter.Cause)
		require.Contains(t, string(letter.Event), `"sealed"`)
		require.NotContains(t, string(letter.Event), "aHVudGVyMg")

		clear := poison("", "state")
		clear.Key = "Secret//clear"
		clear.Event.SetSubject(clear.Key)
		clear.Event.SetExtension("phase", "live")
		clear.Event.SetDataContentType("application/json")
		clear.Event.DataEncoded = []byte(`{"spec":` + password + `}`)
		require.NoError(t, r.hub.link.Send(t.Context(), clear))
		settle(time.Second)
		of := book.Of("Secret/clear")
		require.Len(t, of, 1)
		require.Contains(t, of[0].Reason, wire.ErrMalformed.Error())
		require.Nil(t, of[0].Event)
	})
}

// TestNoKeysWhereNothingSecretTravels: an autonomous agent needs none.
func TestNoKeysWhereNothingSecretTravels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for _, s := range []*side{r.hub, r.spoke} {
			s.engine.Rules.Mode = resource.Autonomous
			s.tune = func(c *session.Config) { c.Key = seal.Key{} }
		}
		r.start()
		r.hub.plant(password)
		settle(time.Minute)
		log, err := r.spoke.link.Log(t.Context())
		require.NoError(t, err)
		require.NotContains(t, log.Rows, "$seal")
		require.Contains(t, log.Rows, "$manifest")
		require.Empty(t, r.spoke.planted())

		r.hub.stop()
		r.hub.engine.Rules.Mode = resource.Managed
		r.hub.start()
		settle(time.Minute)
		require.NoError(t, r.spoke.Status().Err, "and a key that somebody tells it does no harm")
		require.Zero(t, r.spoke.Status().DeadLetters)
	})
}
