package natsstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// markersLive is how long it is kept that an object was deleted.
const markersLive = 24 * time.Hour

// The headers by which clients of a bucket say that a key is deleted.
const (
	operationHeader = "KV-Operation"
	purged          = "PURGE"
	deleted         = "DEL"
)

// errOwner is given for a bucket that is kept by another program.
var errOwner = errors.New("the bucket is another's")

// A bucket is a bucket of a key-value store at a server.
type bucket struct {
	js      jetstream.JetStream
	name    string
	owner   string
	timeout time.Duration
	ages    *atomic.Bool // a message may be given an age; known once it was opened

	mu    sync.Mutex
	known owner // what was read or written last
}

// An owner is what is under ownerKey.
type owner struct {
	Owner    string `json:"owner"`
	Identity string `json:"identity"`
}

func (b *bucket) stream() string { return "KV_" + b.name }
func (b *bucket) prefix() string { return "$KV." + b.name + "." }

// limit returns the context of one request.
func (b *bucket) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, b.timeout, fmt.Errorf("the server has not answered within %v", b.timeout))
}

// open returns the stream that keeps the bucket, which is made if there is none.
func (b *bucket) open(ctx context.Context) (jetstream.Stream, error) {
	ctx, cancel := b.limit(ctx)
	defer cancel()
	s, err := b.js.Stream(ctx, b.stream())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = b.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket:         b.name,
			Description:    "objects of argocd-agent",
			LimitMarkerTTL: markersLive,
		})
		if err == nil || errors.Is(err, jetstream.ErrBucketExists) { // by whoever was faster
			s, err = b.js.Stream(ctx, b.stream())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", b.name, told(ctx, err))
	}
	b.ages.Store(s.CachedInfo().Config.AllowMsgTTL)
	return s, nil
}

// claim returns the identity of the bucket, which is noted in it together with its owner if
// neither is. One that was lost while this process runs is noted as it was.
func (b *bucket) claim(ctx context.Context, s jetstream.Stream) (string, error) {
	ctx, cancel := b.limit(ctx)
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		m, err := s.GetLastMsgForSubject(ctx, b.prefix()+ownerKey)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			m = &jetstream.RawStreamMsg{}
		case err != nil:
			return "", fmt.Errorf("read whose bucket %s is: %w", b.name, told(ctx, err))
		}
		var found owner
		switch err := json.Unmarshal(m.Data, &found); {
		case len(m.Data) > 0 && (err != nil || found.Identity == ""):
			return "", fmt.Errorf("bucket %s: what is under the key %q is not what this program writes: %w", b.name, ownerKey, errors.Join(errOwner, err))
		case len(m.Data) > 0 && found.Owner != b.owner:
			return "", fmt.Errorf("bucket %s is kept by %s, not by %s: %w; give every program a bucket of its own", b.name, found.Owner, b.owner, errOwner)
		case len(m.Data) > 0:
			b.known = found
			return found.Identity, nil
		}
		b.known = owner{b.owner, cmp.Or(b.known.Identity, uuid.NewString())}
		text, err := json.Marshal(b.known)
		if err == nil {
			_, err = b.put(ctx, ownerKey, text, m.Sequence)
		}
		if err != nil && !changed(err) { // by whoever was faster
			return "", fmt.Errorf("note whose bucket %s is: %w", b.name, told(ctx, err))
		}
	}
}

// put writes a value under a key whose last revision must be the given one, 0 for none.
func (b *bucket) put(ctx context.Context, key string, value []byte, last uint64) (revision uint64, err error) {
	return b.publish(ctx, &nats.Msg{Subject: b.prefix() + key, Data: value}, last)
}

// remove deletes a key whose last revision must be the given one.
func (b *bucket) remove(ctx context.Context, key string, last uint64) (revision uint64, err error) {
	m := nats.NewMsg(b.prefix() + key)
	m.Header.Set(operationHeader, purged)
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	if b.ages.Load() {
		return b.publish(ctx, m, last, jetstream.WithMsgTTL(markersLive))
	}
	return b.publish(ctx, m, last)
}

func (b *bucket) publish(ctx context.Context, m *nats.Msg, last uint64, o ...jetstream.PublishOpt) (uint64, error) {
	ack, err := b.js.PublishMsg(ctx, m, append(o,
		jetstream.WithExpectStream(b.stream()), jetstream.WithExpectLastSequencePerSubject(last))...)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// last returns the last change of a key; one of revision 0 says that there is none.
func (b *bucket) last(ctx context.Context, key string) (change, error) {
	s, err := b.js.Stream(ctx, b.stream())
	if err != nil {
		return change{}, err
	}
	return b.lastOf(ctx, s, key)
}

func (b *bucket) lastOf(ctx context.Context, s jetstream.Stream, key string) (change, error) {
	m, err := s.GetLastMsgForSubject(ctx, b.prefix()+key)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return change{key: key, deleted: true}, nil
	}
	if err != nil {
		return change{}, err
	}
	return b.change(m.Subject, m.Header, m.Data, place{m.Sequence, m.Time}), nil
}

// after reports whether the bucket holds anything that came after a revision. What the server
// says of a consumer is no answer: that hears of a change later than the bucket has it.
func (b *bucket) after(ctx context.Context, s jetstream.Stream, revision uint64) (bool, error) {
	ctx, cancel := b.limit(ctx)
	defer cancel()
	_, err := s.GetMsg(ctx, revision+1, jetstream.WithGetMsgSubject(b.prefix()+">"))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	return err == nil, told(ctx, err)
}

// change reads a message of the bucket. A marker that the server has put in the place of a
// value that has aged is no word that somebody has deleted it.
func (b *bucket) change(subject string, h nats.Header, value []byte, at place) change {
	c := change{key: strings.TrimPrefix(subject, b.prefix()), place: at, value: value}
	switch {
	case h.Get(jetstream.MarkerReasonHeader) != "":
		c.deleted = true
	case h.Get(operationHeader) == purged, h.Get(operationHeader) == deleted:
		c.deleted, c.seen = true, true
	}
	return c
}
