package principal

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// What is asked of an agent that is not there, or not yet, says which.
func TestWhatIsAskedOfNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := &shaky{links: map[string]int{"bad": 1000}}
		f := start(t, func(h transport.Hub) transport.Hub { hub.Hub = h; return hub })
		defer f.end()
		f.roll <- []backend.Agent{{Name: "bad"}, {Name: "away"}}
		f.settle()
		ask := map[string]func(agent string) error{
			"approve": func(agent string) error { _, err := f.Approve(t.Context(), agent, ""); return err },
			"retry":   func(agent string) error { return f.Retry(t.Context(), agent, "Application/web") },
			"open":    func(agent string) error { _, err := f.Open(t.Context(), agent, "inquiry"); return err },
			"objects": func(agent string) error { _, err := f.Objects(t.Context(), agent); return err },
			"letters": func(agent string) error { _, err := f.Letters(agent); return err },
		}
		for what, f := range ask {
			require.ErrorIs(t, f("nobody"), ErrUnknown, what)
		}
		for _, what := range []string{"approve", "retry", "open"} {
			require.ErrorIs(t, ask[what]("bad"), ErrNotYet, what)
		}
		for _, what := range []string{"objects", "letters"} {
			require.NoError(t, ask[what]("bad"), what)
		}
		require.ErrorIs(t, ask["approve"]("away"), ErrNothing)
		require.ErrorIs(t, ask["open"]("away"), transport.ErrAway)
		require.NoError(t, ask["retry"]("away"), "there is nothing to do")
		_, err := f.Agent("nobody")
		require.ErrorIs(t, err, ErrUnknown)
		require.Equal(t, "hub-1", f.Identity())
	})
}

// The hub's objects are read as they are on the link.
func TestObjectsAreAsOnTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		defer f.end()
		f.roll <- []backend.Agent{{Name: "one"}, {Name: "two"}}
		edit(f.store, app("one", "web"), resource.Spec, `{"destination":{"name":"one"}}`)
		edit(f.store, app("two", "web"), resource.Spec, `{}`)
		f.settle()
		got, err := f.Objects(t.Context(), "one")
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.Equal(t, app("", "web"), got[0].Key)
		require.Equal(t, `{"destination":{"server":"https://kubernetes.default.svc"}}`, got[0].Parts[resource.Spec])
	})
}

// A stream reaches the agent's process, and none but that agent's.
func TestStreamsReachTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		defer f.end()
		f.roll <- []backend.Agent{{Name: "one"}, {Name: "two"}}
		link, err := f.net.Agent("one", presence()).Dial(t.Context())
		require.NoError(t, err)
		defer link.Close()
		f.settle()
		c, err := f.Open(t.Context(), "one", "hello")
		require.NoError(t, err)
		defer c.Close()
		service, there, err := link.Streams().Accept(t.Context())
		require.NoError(t, err)
		require.Equal(t, "hello", service)
		_, err = io.WriteString(there, "one")
		require.NoError(t, errors.Join(err, there.Close()))
		text, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Equal(t, "one", string(text))
	})
}
