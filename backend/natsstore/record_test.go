package natsstore

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

const whole = `{"after":17,"apiVersion":"argoproj.io/v1alpha1","fault":"it <failed>","kind":"Application",` +
	`"metadata":{"annotations":{"note":"<&>"},"creationTimestamp":"2026-01-01T00:00:00Z","deletionTimestamp":"2026-01-02T03:04:05Z",` +
	`"finalizers":["example.com/hold","resources-finalizer.argocd.argoproj.io"],"labels":{"team":"blue"},"name":"a","namespace":"argocd","uid":"u"},` +
	`"operation":{"sync":{}},"operationID":"id","operationState":{"phase":"Running"},"origin":{"by":"hub","uid":"o"},"ours":{"labels":{"team":""}},` +
	`"spec":{"limit":9007199254740993,"ratio":1.10},"status":{"health":{}}}`

// TestValuesAreWhole reads a value with everything in it, and writes it again.
func TestValuesAreWhole(t *testing.T) {
	r, err := decode(appKey("a"), 23, []byte(whole))
	require.NoError(t, err)
	require.Equal(t, resource.Object{
		Key: appKey("a"), UID: "u", Version: "23", Origin: resource.Origin{UID: "o", By: "hub"}, Deleting: true,
		Ours: `{"labels":{"team":""}}`,
		Parts: resource.Parts{
			resource.Spec:      `{"limit":9007199254740993,"ratio":1.10}`,
			resource.Meta:      `{"labels":{"team":"blue"},"annotations":{"note":"<&>"},"finalizers":["resources-finalizer.argocd.argoproj.io"]}`,
			resource.Status:    `{"health":{}}`,
			resource.OpState:   `{"phase":"Running"}`,
			resource.Operation: `{"sync":{}}`,
			resource.OpID:      "id",
			resource.Fault:     "it <failed>",
		},
	}, r.Object)
	value, err := encode(r)
	require.NoError(t, err)
	require.Equal(t, whole, string(value))
}

func TestValuesThatAreNoObjects(t *testing.T) {
	for _, value := range []string{
		``, `[]`, `"text"`, `{`, `{"kind":"AppProject"}`, `{"metadata":{"name":"b"}}`, `{"metadata":[]}`, `{"metadata":{"labels":{"a":1}}}`,
		`{"metadata":{"finalizers":"f"}}`, `{"metadata":{"finalizers":[1]}}`, `{"origin":1}`, `{"operationID":{}}`, `{"after":"soon"}`,
	} {
		_, err := decode(appKey("a"), 1, []byte(value))
		require.Error(t, err, value)
	}
	r, err := decode(appKey("a"), 5, []byte(` {} `))
	require.NoError(t, err)
	require.Equal(t, resource.Object{Key: appKey("a"), UID: "kv-5", Version: "5"}, r.Object)
}

// TestPeopleWriteByHand puts values as people do, by any client.
func TestPeopleWriteByHand(t *testing.T) {
	h := startHost(t)
	s, _ := h.store()
	w := h.follow(s)
	require.Empty(t, w.list())
	kv := users{t, h.client()}.kv()
	const key = "Application.argocd.a"
	put := func(value string) {
		_, err := kv.PutString(t.Context(), key, value)
		require.NoError(t, err)
	}
	put(`{"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "a", "labels": {"l": "1"}}, "spec": {"b": 1, "a": 2}}`)
	first := *w.next().Put
	require.Equal(t, `{"a":2,"b":1}`, first.Parts[resource.Spec])
	require.NotEmpty(t, first.UID)

	// What the programs write leaves the rest as it is.
	first.Parts[resource.Status] = `{}`
	second := write(t, s, first)
	require.Equal(t, &second, w.next().Put)
	require.Equal(t, first.UID, second.UID)
	e, err := kv.Get(t.Context(), key)
	require.NoError(t, err)
	var value map[string]any
	require.NoError(t, json.Unmarshal(e.Value(), &value))
	require.Equal(t, "argoproj.io/v1alpha1", value["apiVersion"])

	// What is no object is not shown, and not written over.
	put(`oops`)
	require.Equal(t, &backend.Gone{Key: first.Key, UID: first.UID}, w.next().Gone)
	_, err = s.Write(t.Context(), app("a", `1`))
	requireTransient(t, err)
	_, err = s.Write(t.Context(), second)
	require.ErrorIs(t, err, backend.ErrConflict)
	_, err = kv.PutString(t.Context(), "by-the-way", "not ours")
	require.NoError(t, err)

	put(`{"spec": 3}`)
	third := *w.next().Put
	require.Equal(t, `3`, third.Parts[resource.Spec])
	require.NoError(t, kv.Delete(t.Context(), key))
	require.Equal(t, &backend.Gone{Key: third.Key, UID: third.UID, Seen: true}, w.next().Gone)
	fourth := write(t, s, app("a", `4`))
	require.Equal(t, &fourth, w.next().Put)
	require.Empty(t, w.events)
}

// TestValuesHaveALimit writes what just fits and what does not, by the server's limit and
// by the bucket's own.
func TestValuesHaveALimit(t *testing.T) {
	h := startHost(t, func(o *server.Options) { o.MaxPayload = 1 << 20 })
	js := h.client()
	s, _ := h.store()
	w := h.follow(s)
	require.Empty(t, w.list())
	sized := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	large := write(t, s, app("a", sized(1<<20-2000)))
	require.Equal(t, &large, w.next().Put)
	larger := large
	larger.Parts[resource.Status] = sized(3000)
	refused := func(o resource.Object) {
		t.Helper()
		_, err := s.Write(t.Context(), o)
		require.ErrorIs(t, err, backend.ErrRefused)
		require.ErrorContains(t, err, "too large")
	}
	refused(larger)
	refused(app("b", sized(3<<20)))
	large.Parts[resource.Spec] = `"small"`
	small := write(t, s, large)
	require.Equal(t, &small, w.next().Put)

	stream, err := js.Stream(t.Context(), "KV_"+testBucket)
	require.NoError(t, err)
	cfg := stream.CachedInfo().Config
	cfg.MaxMsgSize = 10_000
	_, err = js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)
	refused(app("b", sized(10_000)))
	b := write(t, s, app("b", sized(5_000)))
	require.Equal(t, &b, w.next().Put)
	require.Empty(t, w.events)
}

// TestBucketHasOneOwner shows that two programs that are told to share a bucket do not.
func TestBucketHasOneOwner(t *testing.T) {
	h := startHost(t)
	first, _ := h.store()
	identity, err := first.Identity(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, identity)
	cfg := h.config()
	cfg.Owner = "agent edge-1"
	second, err := New(cfg)
	require.NoError(t, err)
	require.EqualError(t, second.Run(t.Context()), "natsstore: bucket objects is kept by test, not by agent edge-1: the bucket is another's; give every program a bucket of its own")
	_, err = second.Identity(t.Context())
	require.Error(t, err)

	again, _ := h.store()
	same, err := again.Identity(t.Context())
	require.NoError(t, err)
	require.Equal(t, identity, same)
	cfg.Bucket = "another"
	other, err := New(cfg)
	require.NoError(t, err)
	another, err := other.Identity(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, identity, another)
}

// TestMarkersAge shows that what says of a deletion has an end, where the bucket can.
func TestMarkersAge(t *testing.T) {
	h := startHost(t)
	s, _ := h.store()
	a := write(t, s, app("a", `1`))
	require.NoError(t, s.Remove(t.Context(), a.Key, a.Version))
	stream, err := h.client().Stream(t.Context(), "KV_"+testBucket)
	require.NoError(t, err)
	m, err := stream.GetLastMsgForSubject(t.Context(), "$KV."+testBucket+".Application.argocd.a")
	require.NoError(t, err)
	require.Equal(t, markersLive.String(), m.Header.Get(jetstream.MsgTTLHeader))
}
