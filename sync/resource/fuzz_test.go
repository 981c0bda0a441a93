package resource_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// FuzzTexts hands any text to all that reads a part of an object, which a peer or a user has
// written: what is read is written so that it is read as the same again.
func FuzzTexts(f *testing.F) {
	for _, text := range []string{
		"", "{}", "null", "7", `"`, `[{"a":1e400}]`, `{"labels":{"a":"b"},"annotations":{"c":"d"},"finalizers":["e"]}`,
		resource.PendingOperation(`{"sync":{}}`, "edge", time.Unix(1, 0)),
		resource.FailedOperation(`{"sync":{}}`, "too old", time.Unix(1, 0), time.Unix(2, 0)),
		resource.OperationID("uid", time.Unix(1, 0), `{"sync":{}}`) + " " + `{"sync":{}}`,
		resource.TakeRefresh(resource.RefreshID(resource.RefreshHard, time.Unix(1, 0)), "2026-03-01T10:00:00Z"),
		`{"reconciledAt":"2026-03-01T10:00:00Z","conditions":[{"type":"UnknownError"}]}`,
	} {
		f.Add(text, "uid")
	}
	f.Fuzz(func(t *testing.T, text, uid string) {
		m := resource.ParseMetadata(text)
		require.Equal(t, m.Text(), resource.ParseMetadata(m.Text()).Text())
		r := resource.ParseRequests(text)
		require.Equal(t, r, resource.ParseRequests(r.Text()))
		end := resource.ParseTermination(text)
		require.Equal(t, end, resource.ParseTermination(end.Text()))
		if v, err := resource.Decode(text); err == nil {
			canonical := resource.Canonical(v)
			again, err := resource.Decode(canonical)
			require.NoError(t, err)
			require.Equal(t, canonical, resource.Canonical(again))
		}
		resource.OperationNamed(text, uid, text)
		resource.SyncOperation(text, uid)
		resource.OperationFinished(text)
		resource.OperationOf(text)
		resource.OperationPending(text, uid)
		resource.Terminating(text, text, time.Unix(1, 0))
		o := resource.Object{UID: uid}
		o.Parts[resource.Refresh], o.Parts[resource.Status] = text, text
		resource.Refreshed(o)
	})
}
