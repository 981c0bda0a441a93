package natsstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// errGap is given by a tail that has lost a message.
var errGap = errors.New("a change was lost on the way")

// A tail takes the changes of a bucket into the mirror, from one place in its history on,
// until it is broken or closed.
type tail struct {
	bucket   *bucket
	mirror   *mirror
	consumer jetstream.Consumer
	messages jetstream.ConsumeContext
	broken   chan error // holds why, once it is

	// The mirror's lock guards the rest.
	came  uint64 // messages, in order
	at    uint64 // the revision of the last
	whole bool   // all that there was when it began has come
}

// newTail begins with the revision from; 0 is the last value of each key.
func newTail(ctx context.Context, b *bucket, m *mirror, from uint64) (*tail, error) {
	cfg := jetstream.ConsumerConfig{
		AckPolicy:         jetstream.AckNonePolicy,
		DeliverPolicy:     jetstream.DeliverLastPerSubjectPolicy,
		FilterSubject:     b.prefix() + ">",
		InactiveThreshold: 30 * time.Second,
		MemoryStorage:     true,
		Replicas:          1,
	}
	if from > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, from
	}
	ctx, cancel := b.limit(ctx)
	defer cancel()
	c, err := b.js.CreateConsumer(ctx, b.stream(), cfg)
	if err != nil {
		return nil, fmt.Errorf("watch bucket %s: %w", b.name, told(ctx, err))
	}
	t := &tail{bucket: b, mirror: m, consumer: c, broken: make(chan error, 1)}
	t.whole = c.CachedInfo().NumPending == 0
	t.messages, err = c.Consume(t.take,
		jetstream.PullMaxMessages(200), jetstream.PullExpiry(30*time.Second), jetstream.PullHeartbeat(5*time.Second),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { t.fail(err) }))
	if err != nil {
		return nil, fmt.Errorf("watch bucket %s: %w", b.name, err)
	}
	return t, nil
}

// take takes in the next message. Once one is missing it takes no more.
func (t *tail) take(m jetstream.Msg) {
	meta, err := m.Metadata()
	if err != nil {
		t.fail(err)
		return
	}
	if meta.Sequence.Consumer != t.came+1 { // only this goroutine changes it
		t.fail(errGap)
		return
	}
	c := t.bucket.change(m.Subject(), m.Headers(), m.Data(), place{meta.Sequence.Stream, meta.Timestamp})
	t.mirror.take(c, func() {
		t.came++
		t.at = c.revision
		t.whole = t.whole || meta.NumPending == 0
	})
}

func (t *tail) fail(err error) {
	select {
	case t.broken <- fmt.Errorf("watch bucket %s: %w", t.bucket.name, err):
	default: // it is broken already
	}
}

// through returns once all that there was when the tail began has come, or it is broken.
// That is what the number of messages says that wait, or that the revision has come; and if
// neither ever does, that the bucket holds nothing more.
func (t *tail) through(ctx context.Context, s jetstream.Stream, revision uint64, check time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- t.mirror.until(ctx, func() bool { return t.whole || t.at >= revision }) }()
	tick := time.NewTicker(check)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case err := <-t.broken:
			return err
		case <-tick.C:
			_, at := t.progress()
			if more, err := t.bucket.after(ctx, s, at); !more || err != nil {
				return err
			}
		}
	}
}

// progress returns how many messages have come, and the revision of the last.
func (t *tail) progress() (came, at uint64) {
	t.mirror.mu.Lock()
	defer t.mirror.mu.Unlock()
	return t.came, t.at
}

// close ends the tail: it takes in nothing more. What the server keeps of it ends soon, by
// itself if it cannot be told.
func (t *tail) close(connected bool) {
	t.messages.Stop()
	<-t.messages.Closed()
	if connected {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = t.bucket.js.DeleteConsumer(ctx, t.bucket.stream(), t.consumer.CachedInfo().Name)
	}
}
