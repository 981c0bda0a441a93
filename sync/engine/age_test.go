package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// TestAStoreIsNotYoungerThanItsOwnWord: a log that is opened again, as when the peer speaks another
// version, says how far this very process has seen its store come since it was listed; one from before
// it may say that the store had come further.
func TestAStoreIsNotYoungerThanItsOwnWord(t *testing.T) {
	for name, c := range map[string]struct{ listed, remembered, peak uint64 }{
		"as far as this process has come": {1, 5, 0},
		"less far":                        {1, 3, 0},
		"further":                         {1, 9, 9},
	} {
		t.Run(name, func(t *testing.T) {
			hub := engine.New(engine.Config{Side: resource.Principal, Self: "hub", Peer: "spoke"})
			now := time.Unix(1_700_000_000, 0)
			hub.Step(now, engine.Opened{Epoch: "hub's", Keeps: true, Revision: c.listed})
			hub.Step(now, engine.Changed{Object: resource.Object{Key: app(0), UID: "p1", Version: "5", Parts: resource.Parts{resource.Spec: "{}"}}})
			hub.Step(now, engine.Tick{})
			said := engine.Manifest{Epoch: "hub's", By: "hub", Since: c.listed, Age: c.remembered}
			hub.Step(now, engine.Opened{Epoch: "hub's", Keeps: true, Revision: c.listed, Manifest: &said})
			for _, a := range hub.Step(now, engine.Tick{}) {
				if s, ok := a.(engine.Send); ok && s.Message.Key == engine.ManifestKey {
					require.Equal(t, c.peak, s.Message.Body.(engine.Manifest).Peak)
					return
				}
			}
			t.Fatal("it is not declared anew")
		})
	}
}
