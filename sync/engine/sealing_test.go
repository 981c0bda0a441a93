package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A sealer is an Engine of a hub with one Secret and one Application, fed by hand.
type sealer struct {
	*engine.Engine
	now time.Time
}

const sealed = "repo"

func newSealer(ev engine.Opened, before ...engine.Event) (s *sealer, says []engine.Message) {
	s = &sealer{engine.New(engine.Config{Side: resource.Principal, Self: "hub", Peer: "spoke", Public: "ours"}), time.Unix(1_700_000_000, 0)}
	for _, o := range []resource.Object{
		{Key: secret(sealed), UID: "p1", Version: "1", Parts: resource.Parts{resource.Spec: `{"password":"hunter2"}`}},
		{Key: app(0), UID: "p2", Version: "2", Parts: resource.Parts{resource.Spec: `{}`}},
	} {
		s.says(engine.Changed{Object: o})
	}
	for _, e := range before {
		s.says(e)
	}
	return s, s.says(ev)
}

// says returns what is sent.
func (s *sealer) says(ev engine.Event) (out []engine.Message) {
	for _, a := range s.Step(s.now, ev) {
		if m, ok := a.(engine.Send); ok {
			out = append(out, m.Message)
		}
	}
	return out
}

func bodyOf(says []engine.Message, k resource.Key) engine.Body {
	for _, m := range says {
		if m.Key == k {
			return m.Body
		}
	}
	return nil
}

func theirs(public, key string) engine.Keyed {
	return engine.Keyed{Seal: engine.Seal{Public: public, Of: "ours"}, Key: key}
}

var empty = engine.Opened{Epoch: "epoch", Keeps: true}

// TestASecretWaitsForTheKeyOfThePeer, and nothing looks as if it did not: it is not in the
// table yet.
func TestASecretWaitsForTheKeyOfThePeer(t *testing.T) {
	s, says := newSealer(empty)
	require.Nil(t, bodyOf(says, secret(sealed)))
	require.NotNil(t, bodyOf(says, app(0)), "all else goes")
	require.Equal(t, engine.Seal{Public: "ours"}, bodyOf(says, engine.SealKey))
	require.Equal(t, 1, bodyOf(s.says(engine.Tick{}), engine.ManifestKey).(engine.Manifest).Count)
	require.Empty(t, s.says(engine.Retry{Key: secret(sealed)}))
	require.Empty(t, s.Faults(secret(sealed)))

	says = s.says(theirs("theirs", "key"))
	require.Equal(t, engine.Seal{Public: "ours", Of: "theirs"}, bodyOf(says, engine.SealKey))
	row := bodyOf(says, secret(sealed)).(engine.Record)
	require.Equal(t, "key", row.Seal)
	require.Nil(t, bodyOf(says, app(0)))
	require.Empty(t, s.says(theirs("theirs", "key")), "said again it is no news")
	require.Equal(t, 2, bodyOf(s.says(engine.Tick{}), engine.ManifestKey).(engine.Manifest).Count)
}

// TestASecretThatWaitsMayGo: it was in the log, and there is no key now.
func TestASecretThatWaitsMayGo(t *testing.T) {
	held := empty
	held.Holds = map[resource.Key]engine.Held{secret(sealed): {Digest: "of another key", UID: "p1"}}
	s, says := newSealer(held)
	require.Nil(t, bodyOf(says, secret(sealed)), "what is in the log stays until it can be replaced")
	require.Equal(t, engine.Tombstone{UID: "p1"}, bodyOf(s.says(engine.Vanished{Key: secret(sealed), UID: "p1", Seen: true}), secret(sealed)))
}

// TestADigestDependsOnTheKey: rows of the same content differ, and so does the sum of the
// table.
func TestADigestDependsOnTheKey(t *testing.T) {
	var rows, manifests []resource.Digest
	for _, key := range []string{"one", "other"} {
		s, says := newSealer(empty, theirs("theirs", key))
		rows = append(rows, bodyOf(says, secret(sealed)).Digest())
		manifests = append(manifests, bodyOf(s.says(engine.Tick{}), engine.ManifestKey).Digest())
		guess := bodyOf(says, secret(sealed)).(engine.Record)
		guess.Seal = ""
		require.NotEqual(t, guess.Digest(), rows[0], "nobody finds out by guessing")
	}
	require.NotEqual(t, rows[0], rows[1])
	require.NotEqual(t, manifests[0], manifests[1])
}

// TestANewKeySendsSecretsAnew, and nothing else.
func TestANewKeySendsSecretsAnew(t *testing.T) {
	s, says := newSealer(empty, theirs("theirs", "one"))
	first := bodyOf(says, secret(sealed)).(engine.Record)
	says = s.says(theirs("another", "other"))
	second := bodyOf(says, secret(sealed)).(engine.Record)
	require.Len(t, says, 2)
	require.Equal(t, engine.Seal{Public: "ours", Of: "another"}, bodyOf(says, engine.SealKey))
	require.Equal(t, first.Parts, second.Parts)
	require.Equal(t, "other", second.Seal)
}

// TestARestartWithTheSameKeysIsSilent, as the link's copy gives the peer's key before the log
// is opened.
func TestARestartWithTheSameKeysIsSilent(t *testing.T) {
	_, says := newSealer(empty, theirs("theirs", "key"))
	held := empty
	held.Holds = map[resource.Key]engine.Held{}
	for _, m := range says {
		h := engine.Held{Digest: m.Body.Digest()}
		if r, ok := m.Body.(engine.Record); ok {
			h.UID = r.UID
		}
		held.Holds[m.Key] = h
	}
	require.Len(t, held.Holds, 3)
	_, says = newSealer(held, theirs("theirs", "key"))
	require.Empty(t, says)

	s, says := newSealer(held)
	require.Nil(t, bodyOf(says, secret(sealed)))
	require.Nil(t, bodyOf(s.says(theirs("theirs", "key")), secret(sealed)), "nor if it comes late")
}

// TestAPeerThatDoesNotKnowOurKeyIsToldAgain: a log may not bring it to a new process.
func TestAPeerThatDoesNotKnowOurKeyIsToldAgain(t *testing.T) {
	s, _ := newSealer(empty, theirs("theirs", "key"))
	unknowing := engine.Keyed{Seal: engine.Seal{Public: "theirs"}, Key: "key"}
	require.Equal(t, []engine.Message{{Key: engine.SealKey, Body: engine.Seal{Public: "ours", Of: "theirs"}}}, s.says(unknowing))
	require.Empty(t, s.says(engine.Tick{})[1:], "once: besides there is the manifest")
	s.says(engine.Unsent{Key: engine.SealKey})
	require.NotNil(t, bodyOf(s.says(engine.Tick{}), engine.SealKey), "and again if that was not sent")
}

// TestWhatCouldNotBeOpenedIsAskedForAgain once the key of the peer is another, though it was
// taken for a row that nobody will ever read. So is nothing else.
func TestWhatCouldNotBeOpenedIsAskedForAgain(t *testing.T) {
	s := newSpoke()
	s.step(theirs("theirs", "one"))
	for range 2 {
		for _, k := range []resource.Key{secret(sealed), app(0)} {
			s.hears(k, engine.Unreadable{Row: "row", UID: "original", Text: "sealed with another key"})
		}
	}
	require.Equal(t, 2, s.Status().Copied)
	s.step(theirs("theirs", "one"))
	require.Equal(t, 2, s.Status().Copied, "it is the same key")
	s.step(theirs("another", "other"))
	require.Equal(t, 1, s.Status().Copied)
	require.Empty(t, s.Faults(secret(sealed)))
	require.NotEmpty(t, s.Faults(app(0)))
}

// Keys that change while all else goes on cost the Secrets, once, and nobody a fault.
func TestKeysChange(t *testing.T) {
	for _, k := range []linkKind{durable, volatile} {
		w := fleet(t, k, 20)
		for i := range 5 {
			o := resource.Object{Key: secret(string(rune('a' + i))), UID: w.uid(resource.Principal)}
			w.born[o.UID] = true
			o.Parts[resource.Spec] = `"1"`
			w.node[0].put(o)
		}
		w.settle(8)
		w.expect(t)
		for side := range w.node {
			w.reset()
			w.node[side].rekey()
			w.settle(10)
			w.expect(t)
			c := w.counts()
			if c[0] < 5 || c[0] > 10 || c[1] > 0 || c[4]+c[5] > 0 {
				t.Errorf("%v, side %d: rows %v, other messages %v, writes %v", k, side, c[0:2], c[2:4], c[4:6])
			}
			w.reset()
			w.node[side].restart()
			w.settle(10)
			if c := w.counts(); c[0]+c[1] > 0 {
				t.Errorf("%v, side %d: after a restart rows %v", k, side, c[0:2])
			}
		}
	}
}
