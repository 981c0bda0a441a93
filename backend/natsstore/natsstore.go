// Package natsstore keeps objects in a bucket of NATS JetStream's key-value store: a hub or
// a spoke without a cluster, or beyond the size of etcd.
//
// # What is stored where
//
// The bucket B is the stream KV_B. Each object is under the key KIND.NAMESPACE.NAME, that
// is, the subject $KV.B.KIND.NAMESPACE.NAME. In each of the three, letters, digits, "-" and
// "_" stand for themselves, every other byte is "=" and two hexadecimal digits, and what is
// empty is a bare "=": guestbook.v2 in argocd is under Application.argocd.guestbook=2Ev2.
//
// A value is the whole object as JSON, much as Kubernetes spells it:
//
//	{"kind": "Application",
//	 "metadata": {"namespace": "argocd", "name": "guestbook", "uid": "5d0c…", "labels": {}, "annotations": {},
//	              "finalizers": [], "deletionTimestamp": "2026-01-02T03:04:05Z"},
//	 "spec": {}, "status": {}, "operationState": {}, "operation": {}, "operationID": "…", "fault": "…",
//	 "origin": {"uid": "…", "by": "…"},                     // the mark of a copy
//	 "ours": {"labels": {"team": ""}, "annotations": {}},   // Object.Ours
//	 "after": 17}                                           // the revision at which the object before it was deleted
//
// Every part of an object but its metadata is a field that has the part's name; kinds need
// no more than that. Fields that this package does not know stay as they are. All may be
// left out: a value that somebody has put without a uid has kv-REVISION for one, so that to
// put another is to make another object. What is no object is reported to the log and left
// alone, and nothing can be written in its place until somebody has deleted it.
//
// An object's Version is the revision of its key, and every write is made on the condition
// of it. An object that is deleted while it has finalizers gets a deletionTimestamp, and
// goes with the last of them. Its key is purged, and the marker lives for a day.
//
// Under the key "owner" it is noted which program keeps the bucket, and the identity of the
// bucket. A program does not work with a bucket that another one keeps.
//
// # A bucket that fails
//
// The bucket is made if there is none: of one replica, in files. For other settings make it
// before (nats kv add). A bucket that ages its values loses objects.
//
// Writes fail with an error that may go away while the server is not there; nothing is
// written later instead. Watches go on where they were once it is there again. As the server
// does not say when it removes keys without leaving word, their number is compared every
// Check, and what is missing is shown as gone, but not as Seen. If the bucket was made anew, or
// restored to an earlier state, watches end with ErrRewound. Only what somebody deletes by
// leaving a marker is shown as deleted.
//
// # Limits
//
// A value is at most what the server takes (max_payload, 1 MiB unless configured), and what
// the bucket takes; more is ErrRefused. A key is at most 1 KiB. All objects are in memory, as
// text. The names of all keys are read in pages when the bucket is listed.
package natsstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Config is what a Store is made of.
type Config struct {
	// URL says where the servers are: one or more nats:// or tls:// URLs with commas between.
	URL string
	// Credentials, if set, is a file with the program's JWT and nkey, as nsc writes it.
	Credentials string
	// TLS, if set, is how the connection is secured. URLs that say tls:// are secured anyway.
	TLS *tls.Config
	// Bucket is the name of the bucket.
	Bucket string
	// Owner says which program keeps the bucket, for people: "principal", "agent edge-1".
	// Different programs are different owners.
	Owner string
	// Patience is how long a Write or Remove waits for its effect to be shown; 0 is 10 s.
	Patience time.Duration
	// Timeout is how long the server may take to answer one request; 0 is 10 s.
	Timeout time.Duration
	// Check is how often what is known of the bucket is compared with it; 0 is 5 s.
	Check time.Duration
	Log   *zap.Logger
}

// Store is a backend.Store in a bucket. Its methods work while Run runs.
type Store struct {
	cfg    Config
	mirror *mirror
	reach  *backend.Reach
	doubt  chan struct{} // holds a token if the mirror may be behind
	bucket chan *bucket  // holds the bucket once Run runs
}

var (
	_ backend.Store  = (*Store)(nil)
	_ backend.Remote = (*Store)(nil)
)

// New returns a Store. It does not reach out.
func New(cfg Config) (*Store, error) {
	if cfg.URL == "" || cfg.Bucket == "" || cfg.Owner == "" || cfg.Log == nil {
		return nil, errors.New("natsstore: URL, Bucket, Owner and Log must be set")
	}
	cfg.Patience = cmp.Or(cfg.Patience, 10*time.Second)
	cfg.Timeout = cmp.Or(cfg.Timeout, 10*time.Second)
	cfg.Check = cmp.Or(cfg.Check, 5*time.Second)
	return &Store{cfg: cfg, mirror: newMirror(cfg.Log), reach: &backend.Reach{}, doubt: make(chan struct{}, 1), bucket: make(chan *bucket, 1)}, nil
}

// Run follows the bucket until ctx is done, and returns the cause. A server that cannot be
// reached is tried again for ever; a bucket that another program keeps is an error. It can be
// called once.
func (s *Store) Run(ctx context.Context) error {
	c, err := connect(s.cfg, true)
	if err != nil {
		return err
	}
	defer c.close()
	s.bucket <- c.bucket
	f := follower{
		bucket: c.bucket, mirror: s.mirror, conn: c.Conn, check: s.cfg.Check, reach: s.reach,
		doubt: s.doubt, again: c.again, log: s.cfg.Log.With(zap.String("bucket", s.cfg.Bucket)),
	}
	return f.run(ctx)
}

// Away implements backend.Remote. A server that is gone is noticed at the next Check.
func (s *Store) Away() (since time.Time, why error) { return s.reach.Away() }

// Identity returns the stable identity of the bucket, which is made, as is the bucket, if
// there is none: however many ask at the same time, all are told the same. It needs no Run,
// and does not wait for a server that is not there.
func (s *Store) Identity(ctx context.Context) (string, error) {
	c, err := connect(s.cfg, false)
	if err != nil {
		return "", err
	}
	defer c.close()
	stream, err := c.bucket.open(ctx)
	if err != nil {
		return "", fmt.Errorf("natsstore: %w", err)
	}
	identity, err := c.bucket.claim(ctx, stream)
	if err != nil {
		return "", fmt.Errorf("natsstore: %w", err)
	}
	return identity, nil
}

// Answers asks a server for the bucket, and returns why there is no answer. That the program may not have
// it is one. It needs no Run, and does not wait for a server that is not there.
func (s *Store) Answers(ctx context.Context) error {
	c, err := connect(s.cfg, false)
	if err != nil {
		return err
	}
	defer c.close()
	_, err = c.bucket.open(ctx)
	var api *jetstream.APIError
	if err == nil || errors.As(err, &api) && api.Code < http.StatusInternalServerError { // as in HTTP
		return nil
	}
	return fmt.Errorf("natsstore: %w", err)
}

// Watch implements backend.Store. It waits until the bucket is listed. Objects are shown in
// the order of their keys.
func (s *Store) Watch(ctx context.Context, scope backend.Scope, f func(backend.Event) error) error {
	run, err := s.mirror.watch(ctx, scope)
	if err == nil {
		err = run(ctx, f)
	}
	return fmt.Errorf("natsstore: watch: %w", err)
}

// Write implements backend.Store. It waits until the bucket is listed.
func (s *Store) Write(ctx context.Context, want resource.Object) (resource.Object, error) {
	stored, err := s.write(ctx, want)
	if err != nil {
		return resource.Object{}, fmt.Errorf("natsstore: write %s: %w", want.Key, err)
	}
	return stored, nil
}

func (s *Store) write(ctx context.Context, want resource.Object) (resource.Object, error) {
	cur, err := s.current(ctx, want.Key, want.Version)
	if err != nil {
		return resource.Object{}, err
	}
	next, err := cur.written(want)
	if err != nil {
		return resource.Object{}, err
	}
	if cur.Version != "" && next.Parts == cur.Parts && next.Origin == cur.Origin {
		return cur.Object, s.shown(ctx, want.Key, cur.entry.revision)
	}
	if cur.Version == "" {
		next.UID = uuid.NewString()
		if cur.entry.deleted {
			next.after = cur.entry.revision
		}
	}
	return s.store(ctx, cur, next)
}

// Remove implements backend.Store.
func (s *Store) Remove(ctx context.Context, k resource.Key, version string) error {
	cur, err := s.current(ctx, k, version)
	switch {
	case err != nil:
	case version == "": // and there is none
		err = backend.ErrConflict
	case cur.Deleting:
		err = s.shown(ctx, k, cur.entry.revision)
	default:
		_, err = s.store(ctx, cur, cur.marked(time.Now()))
	}
	if err != nil {
		return fmt.Errorf("natsstore: remove %s: %w", k, err)
	}
	return nil
}

// A version is what the bucket is known to hold of one object.
type version struct {
	record
	key   string // of the bucket
	entry entry  // what is there
}

// current returns what there is of k, which must be of that version, "" for none.
func (s *Store) current(ctx context.Context, k resource.Key, want string) (v version, err error) {
	if v.key, err = encodeKey(k); err != nil {
		return v, err
	}
	if err := s.mirror.whole(ctx); err != nil {
		return v, err
	}
	v.record, v.entry = s.mirror.get(k, v.key)
	switch {
	case v.Version != want:
		return v, backend.ErrConflict
	case v.entry.bad:
		return v, fmt.Errorf("what is under the key %s of the bucket is no object; delete it there", v.key)
	}
	return v, nil
}

// store puts next into the place of cur, or lets the object vanish if nothing keeps it.
func (s *Store) store(ctx context.Context, cur version, next record) (resource.Object, error) {
	b := <-s.bucket // Run runs, for the bucket is listed
	s.bucket <- b
	ends := next.Deleting && !next.stays()
	value, err := encode(next)
	if err != nil {
		return resource.Object{}, err
	}
	request, cancel := b.limit(ctx)
	defer cancel()
	var revision uint64
	if ends {
		revision, err = b.remove(request, cur.key, cur.entry.revision)
	} else {
		revision, err = s.put(request, b, cur, value)
	}
	if err != nil {
		return resource.Object{}, s.contested(request, b, cur, explain(err, len(value)))
	}
	stored, err := decode(next.Key, revision, value)
	if err != nil {
		return resource.Object{}, fmt.Errorf("%w: %w", backend.ErrRefused, err)
	}
	return stored.Object, s.shown(ctx, next.Key, revision)
}

// put writes a value. The marker of an object that was deleted may have vanished.
func (s *Store) put(ctx context.Context, b *bucket, cur version, value []byte) (uint64, error) {
	revision, err := b.put(ctx, cur.key, value, cur.entry.revision)
	if cur.Version == "" && cur.entry.revision > 0 && changed(err) {
		return b.put(ctx, cur.key, value, 0)
	}
	return revision, err
}

// contested returns what err means. That the key has another revision is ErrConflict if it
// is true, so that watches show or will show why.
func (s *Store) contested(ctx context.Context, b *bucket, cur version, err error) error {
	if !changed(err) {
		return told(ctx, err)
	}
	signal(s.doubt)
	now, look := b.last(ctx, cur.key)
	switch {
	case look != nil:
		return fmt.Errorf("%w, and it cannot be seen why: %w", err, told(ctx, look))
	case cur.Version == "" && now.deleted, now.revision == cur.entry.revision:
		return fmt.Errorf("%w, though it has not changed", err)
	}
	return fmt.Errorf("%w: %w", backend.ErrConflict, err)
}

// shown returns once the mirror is at a revision, and all watches have shown what it then
// holds of k. What takes longer than Patience is an error that may go away: the change is
// made, but whoever asked cannot be told its effect.
func (s *Store) shown(ctx context.Context, k resource.Key, revision uint64) error {
	late := fmt.Errorf("the change was made, but not shown within %v", s.cfg.Patience)
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Patience, late)
	defer cancel()
	if err := s.mirror.until(ctx, func() bool { return s.mirror.seen >= revision }); err != nil {
		signal(s.doubt)
		return err
	}
	return s.mirror.feed.Shown(ctx, k)
}
