package natsstore

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testBucket = "objects"

// A host is a real NATS server that can be stopped and started again.
type host struct {
	t *testing.T
	*server.Server
	options server.Options
}

func startHost(t *testing.T, edit ...func(*server.Options)) *host {
	h := &host{t: t, options: server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()}}
	for _, f := range edit {
		f(&h.options)
	}
	h.start()
	t.Cleanup(h.stop)
	return h
}

func (h *host) start() {
	o := h.options
	s, err := server.NewServer(&o)
	require.NoError(h.t, err)
	s.Start()
	require.True(h.t, s.ReadyForConnections(10*time.Second))
	h.Server, h.options.Port = s, o.Port
}

func (h *host) stop() {
	h.Shutdown()
	h.WaitForShutdown()
}

// client returns a client of the server that knows nothing of this package.
func (h *host) client() jetstream.JetStream {
	nc, err := nats.Connect(h.ClientURL(), nats.ReconnectWait(10*time.Millisecond), nats.MaxReconnects(-1))
	require.NoError(h.t, err)
	h.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(h.t, err)
	return js
}

func (h *host) config() Config {
	return Config{
		URL: h.ClientURL(), Bucket: testBucket, Owner: "test", Log: zaptest.NewLogger(h.t, zaptest.Level(zap.WarnLevel)),
		Check: 50 * time.Millisecond, Timeout: 20 * time.Second, Patience: time.Minute,
	}
}

// store returns a running store, and how it is stopped, which it is at the end of the test.
func (h *host) store() (*Store, func()) {
	s, err := New(h.config())
	require.NoError(h.t, err)
	stop := h.run(s)
	require.NoError(h.t, s.mirror.whole(h.t.Context()))
	return s, stop
}

func (h *host) run(s *Store) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Run(ctx) // which ends with ctx
	}()
	stop = func() { cancel(); <-ended }
	h.t.Cleanup(stop)
	return stop
}

// users work on the bucket as everybody may who can reach the server.
type users struct {
	t  *testing.T
	js jetstream.JetStream
}

func (u users) kv() jetstream.KeyValue {
	kv, err := u.js.KeyValue(u.t.Context(), testBucket)
	require.NoError(u.t, err)
	return kv
}

// change changes the object k, whatever its version, or makes it; f reports whether to.
func (u users) change(k resource.Key, f func(*record) bool) {
	kv := u.kv()
	key, err := encodeKey(k)
	require.NoError(u.t, err)
	for {
		var r record
		var last uint64
		e, err := kv.Get(u.t.Context(), key)
		switch {
		case err == nil:
			last = e.Revision()
			r, err = decode(k, last, e.Value())
			require.NoError(u.t, err)
		default:
			require.ErrorIs(u.t, err, jetstream.ErrKeyNotFound)
			r.Key = k
			history, err := kv.History(u.t.Context(), key)
			if err == nil {
				last = history[0].Revision()
				r.after = last
			}
		}
		if !f(&r) {
			return
		}
		if r.Deleting && !r.stays() {
			err = kv.Delete(u.t.Context(), key, jetstream.LastRevision(last))
		} else {
			var value []byte
			value, err = encode(r)
			require.NoError(u.t, err)
			_, err = kv.Update(u.t.Context(), key, value, last)
		}
		if !changed(err) {
			require.NoError(u.t, err)
			return
		}
	}
}

func (u users) Edit(k resource.Key, f func(*resource.Object)) {
	u.change(k, func(r *record) bool {
		if r.UID == "" {
			r.UID = nats.NewInbox()
		}
		before := r.Object
		f(&r.Object)
		r.Ours = backend.Ours(before, r.Object, false)
		return true
	})
}

func (u users) Delete(k resource.Key) {
	u.change(k, func(r *record) bool {
		if r.UID == "" || r.Deleting {
			return false
		}
		*r = r.marked(time.Now())
		return true
	})
}

func (u users) Hold(k resource.Key) {
	u.change(k, func(r *record) bool {
		r.finalizers = []string{"example.com/hold"}
		return true
	})
}

func (u users) Finish(k resource.Key) {
	u.change(k, func(r *record) bool {
		m := resource.ParseMetadata(r.Parts[resource.Meta])
		m.Finalizers, r.finalizers = nil, nil
		r.Parts[resource.Meta] = m.Text()
		return r.Deleting
	})
}

func (u users) Lose(k resource.Key) {
	key, err := encodeKey(k)
	require.NoError(u.t, err)
	s, err := u.js.Stream(u.t.Context(), "KV_"+testBucket)
	require.NoError(u.t, err)
	require.NoError(u.t, s.Purge(u.t.Context(), jetstream.WithPurgeSubject("$KV."+testBucket+"."+key)))
}

// A follow is a watch whose events a test takes one by one.
type follow struct {
	t      *testing.T
	events chan backend.Event
	ended  chan error // holds why it has ended
}

func (h *host) follow(s *Store) *follow {
	f := &follow{h.t, make(chan backend.Event, 10000), make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		f.ended <- s.Watch(ctx, backend.Scope{}, func(e backend.Event) error {
			select {
			case f.events <- e:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
	h.t.Cleanup(func() { stop(); <-over })
	return f
}

// next returns the next event.
func (f *follow) next() backend.Event {
	f.t.Helper()
	select {
	case e := <-f.events:
		return e
	case err := <-f.ended:
		require.NoError(f.t, err)
	case <-time.After(time.Minute):
		require.FailNow(f.t, "nothing is shown")
	}
	return backend.Event{}
}

// list returns the objects that are shown before Synced.
func (f *follow) list() map[resource.Key]resource.Object {
	f.t.Helper()
	out := map[resource.Key]resource.Object{}
	for {
		e := f.next()
		if e.Synced != nil {
			return out
		}
		require.NotNil(f.t, e.Put)
		out[e.Put.Key] = *e.Put
	}
}

func appKey(name string) resource.Key {
	return resource.Key{Kind: resource.Application, Namespace: "argocd", Name: name}
}

func app(name, spec string) resource.Object {
	o := resource.Object{Key: appKey(name)}
	o.Parts[resource.Spec] = spec
	return o
}

func write(t *testing.T, s *Store, o resource.Object) resource.Object {
	t.Helper()
	stored, err := s.Write(t.Context(), o)
	require.NoError(t, err)
	return stored
}
