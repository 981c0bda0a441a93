package matrix

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/e2e/stack/stacktest"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// onNATS is the ground of one NATS server with a bucket for each side of each story. It is
// none of those that carry messages.
type onNATS struct {
	processes
	url string
	js  jetstream.JetStream
}

func openNATS(t *testing.T) ground {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(patience))
	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience))
	require.NoError(t, err)
	return onNATS{newProcesses(t, stacktest.Start(t, stack.Config{})), s.ClientURL(), js}
}

func (g onNATS) cluster(w *world, s *side) (cluster, error) {
	kv, err := g.js.CreateKeyValue(w.t.Context(), jetstream.KeyValueConfig{Bucket: s.home})
	if err != nil {
		return nil, err
	}
	b := bucket{kv, &mirror{objects: objects{}}}
	w.beside("the mirror of a bucket", b.reflect)
	return b, nil
}

func (g onNATS) programs(w *world) (principal, agent program, err error) {
	roster := []string{"--agents-file", w.path("agents.yaml")}
	if err := g.register(w, roster...); err != nil {
		return nil, nil, err
	}
	by := func(s *side) []string {
		return []string{"--backend", "nats", "--backend-nats-url", g.url, "--backend-nats-bucket", s.home}
	}
	return g.principal(w, append(by(w.hub), roster...)...), g.agent(w, by(w.spoke)...), nil
}

// A bucket is a cluster in a bucket, whose values are as package natsstore documents them.
type bucket struct {
	jetstream.KeyValue
	*mirror
}

// A mirror is what is known of a bucket.
type mirror struct {
	mu      sync.Mutex
	objects objects
	seen    uint64 // the last revision
}

func keyOf(k resource.Key) string {
	return fmt.Sprintf("%s.%s.%s", k.Kind, k.Namespace, k.Name) // of letters, digits and "-"
}

// A value is what is under a key of the bucket.
type value map[string]any

func (v value) metadata() map[string]any {
	m, _ := v["metadata"].(map[string]any)
	return m
}

// each calls f for each entry of an object that is there, and for those that change, until ctx
// is done.
func (b bucket) each(ctx context.Context, f func(jetstream.KeyValueEntry, value)) error {
	w, err := b.WatchAll(ctx)
	for errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // the server has much to do
		w, err = b.WatchAll(ctx)
	}
	if err != nil {
		return err
	}
	defer func() { _ = w.Stop() }() // it ends with ctx
	for {
		select {
		case e := <-w.Updates():
			var v value
			if e != nil && e.Operation() == jetstream.KeyValuePut {
				if err := json.Unmarshal(e.Value(), &v); err != nil {
					return fmt.Errorf("%s: %w", e.Key(), err)
				}
			}
			if e != nil {
				f(e, v)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// reflect keeps the mirror like the bucket until ctx is done.
func (b bucket) reflect(ctx context.Context) error {
	keys := map[string]resource.Key{}
	return b.each(ctx, func(e jetstream.KeyValueEntry, v value) {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.mirror.objects, keys[e.Key()])
		if v["kind"] != nil { // it is an object, and not the mark of who owns the bucket
			o := v.object(e.Revision())
			keys[e.Key()], b.mirror.objects[o.Key] = o.Key, o
		}
		b.seen = e.Revision()
	})
}

func (b bucket) objects(ctx context.Context) (out objects, err error) {
	last, err := b.last(ctx)
	if err != nil {
		return nil, err
	}
	return out, stack.Poll(ctx, 10*time.Millisecond, func(context.Context) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.seen < last {
			return fmt.Errorf("the bucket is at %d, and seen up to %d", last, b.seen)
		}
		out = maps.Clone(b.mirror.objects)
		return nil
	})
}

func (b bucket) follow(ctx context.Context, f func(resource.Object)) error {
	return b.each(ctx, func(e jetstream.KeyValueEntry, v value) {
		if v["kind"] == string(resource.Application) {
			f(v.object(e.Revision()))
		}
	})
}

// change puts in the place of what is under a key what f makes of it; nil is nothing. f is
// given nil where there is nothing.
func (b bucket) change(ctx context.Context, k resource.Key, f func(value, uint64) (value, error)) error {
	for {
		var last uint64
		var v value
		var before []byte
		e, err := b.Get(ctx, keyOf(k))
		switch {
		case err == nil:
			last = e.Revision()
			err = json.Unmarshal(e.Value(), &v)
			before = v.text()
		case errors.Is(err, jetstream.ErrKeyNotFound):
			err = nil
		}
		if err == nil {
			v, err = f(v, last)
		}
		if err != nil {
			return err
		}
		switch {
		case v == nil && last == 0, v != nil && bytes.Equal(v.text(), before):
			return nil
		case v == nil:
			err = b.Delete(ctx, keyOf(k), jetstream.LastRevision(last))
		case last == 0:
			_, err = b.Create(ctx, keyOf(k), v.text())
		default:
			_, err = b.Update(ctx, keyOf(k), v.text(), last)
		}
		var refused *jetstream.APIError
		if !errors.Is(err, jetstream.ErrKeyExists) && (!errors.As(err, &refused) || refused.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence) {
			return err
		}
	}
}

func (b bucket) edit(ctx context.Context, k resource.Key, f func(*resource.Object)) error {
	return b.change(ctx, k, func(v value, revision uint64) (value, error) {
		next := v
		if v == nil {
			next = value{"kind": string(k.Kind), "metadata": map[string]any{"namespace": k.Namespace, "name": k.Name, "uid": uuid.NewString()}}
		}
		before := next.object(revision)
		after := before
		if f(&after); after == before {
			return v, nil
		}
		return next, next.lay(after)
	})
}

func (b bucket) remove(ctx context.Context, k resource.Key) error {
	return b.change(ctx, k, func(v value, _ uint64) (value, error) {
		if v == nil || v.metadata()["finalizers"] == nil {
			return nil, nil
		}
		v.metadata()["deletionTimestamp"] = time.Now().UTC().Format(time.RFC3339)
		return v, nil
	})
}

func (b bucket) finish(ctx context.Context, k resource.Key) error {
	return b.change(ctx, k, func(v value, _ uint64) (value, error) {
		if v.metadata()["deletionTimestamp"] != nil {
			return nil, nil
		}
		return v, nil
	})
}

func (b bucket) writes(ctx context.Context) (string, error) {
	last, err := b.last(ctx)
	return fmt.Sprint(last), err
}

// last returns the last revision of the bucket.
func (b bucket) last(ctx context.Context) (uint64, error) {
	s, err := b.Status(ctx)
	if err != nil {
		return 0, err
	}
	return s.(*jetstream.KeyValueBucketStatus).StreamInfo().State.LastSeq, nil
}

// text returns the value as JSON; it was made of JSON, and can be.
func (v value) text() []byte { return []byte(resource.Canonical(map[string]any(v))) }

func (v value) object(revision uint64) (o resource.Object) {
	field := func(m map[string]any, name string) string {
		text, _ := m[name].(string)
		return text
	}
	m := v.metadata()
	o.Key = resource.Key{Kind: resource.Kind(field(v, "kind")), Namespace: field(m, "namespace"), Name: field(m, "name")}
	o.UID, o.Version, o.Deleting = field(m, "uid"), fmt.Sprint(revision), m["deletionTimestamp"] != nil
	for p := range resource.NumParts {
		if text, plain := v[p.String()].(string); plain {
			o.Parts[p] = text
		} else if p != resource.Meta {
			o.Parts[p] = resource.Canonical(v[p.String()])
		}
	}
	pieces := map[string]any{}
	for _, name := range []string{"labels", "annotations", "finalizers"} {
		if m[name] != nil {
			pieces[name] = m[name]
		}
	}
	o.Parts[resource.Meta] = resource.ParseMetadata(resource.Canonical(pieces)).Text()
	origin, _ := v["origin"].(map[string]any)
	o.Origin = resource.Origin{UID: field(origin, "uid"), By: field(origin, "by")}
	return o
}

// lay makes the value what an object says.
func (v value) lay(o resource.Object) error {
	for p := range resource.NumParts {
		switch {
		case p == resource.Meta:
		case o.Parts[p] == "":
			delete(v, p.String())
		case p >= resource.OpID: // it is plain text
			v[p.String()] = o.Parts[p]
		default:
			piece, err := resource.Decode(o.Parts[p])
			if err != nil {
				return err
			}
			v[p.String()] = piece
		}
	}
	pieces, err := resource.Decode(o.Parts[resource.Meta])
	if err != nil {
		return err
	}
	known, _ := pieces.(map[string]any)
	for _, name := range []string{"labels", "annotations", "finalizers"} {
		delete(v.metadata(), name)
		if known[name] != nil {
			v.metadata()[name] = known[name]
		}
	}
	return nil
}
