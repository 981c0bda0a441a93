package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func TestWhatWaitsToBeSentIsHeldAlready(t *testing.T) {
	record := engine.Record{UID: "u2", After: "u1", Parts: resource.Parts{resource.Spec: "{}"}}
	manifest, fuse := engine.Manifest{Epoch: "e", Count: 1}, engine.Fuse{By: "hub"}
	log := engine.Opened{Epoch: "e", Holds: map[resource.Key]engine.Held{
		key("a"): {Digest: "old", UID: "u1"},
		key("b"): {Digest: "b", UID: "ub"},
		key("c"): {Digest: "c", UID: "uc"},
	}}
	got := overlay(log, map[resource.Key]engine.Message{
		key("a"):           {Key: key("a"), Body: record},
		key("c"):           {Key: key("c"), Body: engine.Tombstone{UID: "uc"}},
		engine.ManifestKey: {Key: engine.ManifestKey, Body: manifest},
		engine.FuseKey:     {Key: engine.FuseKey, Body: fuse},
	})
	require.Equal(t, engine.Opened{
		Epoch: "e",
		Holds: map[resource.Key]engine.Held{
			key("a"):           {Digest: record.Digest(), UID: "u2", After: "u1"},
			key("b"):           {Digest: "b", UID: "ub"},
			engine.ManifestKey: {Digest: manifest.Digest()},
			engine.FuseKey:     {Digest: fuse.Digest()},
		},
		Manifest: &manifest,
		Fuse:     &fuse,
	}, got)
}
