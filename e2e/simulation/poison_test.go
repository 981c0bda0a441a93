package simulation

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

func TestScenario29_OneMessageInAThousandThatNobodyUnderstands(t *testing.T) {
	play(t, func(t *testing.T, f fabric) {
		const rows = 1000
		w := newWorld(t, f, 1, resource.Managed)
		s := w.spokes[0]
		w.start()
		s.hub().set("first", resource.Spec, number(0))
		w.agree()
		process := s.lower().Peer.Process
		for i := range rows - 1 {
			if i == rows/2 {
				require.NoError(t, s.up.send(t.Context(), unheardOf("Application//poison", wire.Newest)))
			}
			s.hub().set(fmt.Sprint("app-", i), resource.Spec, number(i))
		}
		w.settle()
		require.Len(t, s.here().identities(), rows)
		require.Equal(t, 1, s.lower().DeadLetters, "and all else was taken in")
		require.Equal(t, process, s.lower().Peer.Process)
	})
}

// unheardOf returns a message of a type that its version does not know.
func unheardOf(key string, version int) transport.Message {
	e := event.New()
	e.SetID("unheard-of")
	e.SetSource("argocd-agent://" + hubIdentity)
	e.SetType(wire.Prefix + "rumour")
	e.SetSubject(key)
	e.SetExtension("protocolversion", strconv.Itoa(version))
	e.SetExtension("digest", "d")
	return transport.Message{Key: key, Digest: "d", Event: e}
}
