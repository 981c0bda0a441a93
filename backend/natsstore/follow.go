package natsstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
)

// errAgain is given where what is followed has to be looked at again, and nothing is wrong
// with the server.
var errAgain = errors.New("the bucket is looked at again")

// A follower keeps the mirror equal to the bucket, whatever the server does.
type follower struct {
	bucket *bucket
	mirror *mirror
	conn   *nats.Conn
	check  time.Duration
	reach  *backend.Reach
	doubt  <-chan struct{} // somebody knows better than the mirror
	again  <-chan struct{} // the connection is another
	log    *zap.Logger

	created time.Time // of the stream that is followed
	failed  int       // rounds, one after the other
}

// many is how many rounds must fail, one after the other, before that is worth a word.
const many = 3

// run follows until ctx is done, and returns the cause, or until the bucket is found to be
// another's.
func (f *follower) run(ctx context.Context) error {
	for {
		err := f.round(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errOwner):
			return fmt.Errorf("natsstore: %w", err)
		case errors.Is(err, errAgain):
			continue
		}
		f.reach.Note(time.Now(), err)
		if f.failed++; f.failed == many {
			f.log.Warn("the bucket cannot be followed, which is tried again", zap.Error(err), zap.NamedError("connection", f.conn.LastError()))
		}
		select {
		case <-time.After(min(100*time.Millisecond<<min(f.failed, 6), 5*time.Second)):
		case <-f.again:
		case <-ctx.Done():
		}
	}
}

// round follows the bucket from what the mirror knows of it until that does not work any
// more, and returns why.
func (f *follower) round(ctx context.Context) error {
	select {
	case <-f.again: // it is looked at now
	default:
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // what was asked on a connection that is lost is not answered on the next
		select {
		case <-f.again:
			cancel(errAgain)
		case <-ctx.Done():
		}
	}()
	s, err := f.bucket.open(ctx)
	if err != nil {
		return err
	}
	if err := f.compare(ctx, s); err != nil {
		return err
	}
	if _, err := f.bucket.claim(ctx, s); err != nil {
		return err
	}
	from := f.mirror.resume()
	t, err := newTail(ctx, f.bucket, f.mirror, from)
	if err != nil {
		return err
	}
	defer func() { t.close(f.conn.IsConnected()) }()
	if from == 0 {
		shown := s.CachedInfo().State.LastSeq // once the tail is through
		err := t.through(ctx, s, shown, f.check)
		if err == nil {
			err = f.reconcile(ctx, s, shown)
		}
		if err != nil {
			return err
		}
	}
	f.reach.Note(time.Now(), nil)
	if f.failed >= many {
		f.log.Info("the bucket is followed again", zap.Int("failed", f.failed))
	}
	f.failed = 0
	return f.stay(ctx, s, t)
}

// compare finds out whether the stream is the one that the mirror is of, in the state that
// it has seen or a later one. If not, the mirror begins anew.
func (f *follower) compare(ctx context.Context, s jetstream.Stream) error {
	info, seen := s.CachedInfo(), f.mirror.newest()
	why := ""
	switch {
	case f.created.IsZero():
	case !info.Created.Equal(f.created):
		why = "the bucket was made anew"
	case info.State.LastSeq < seen.revision:
		why = fmt.Sprintf("revision %d after %d", info.State.LastSeq, seen.revision)
	case seen.revision > 0:
		ctx, cancel := f.bucket.limit(ctx)
		defer cancel()
		m, err := s.GetMsg(ctx, seen.revision)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound): // it was replaced since
		case err != nil:
			return told(ctx, err)
		case !m.Time.Equal(seen.at):
			why = fmt.Sprintf("revision %d is another", seen.revision)
		}
	}
	if why != "" {
		f.mirror.rewind(why)
	}
	f.created = info.Created
	return nil
}

// reconcile compares the names of all keys with those that the mirror has: a value that is
// replaced while all are read may be left out of them, and keys may vanish without word. shown
// is up to where everything has come.
func (f *follower) reconcile(ctx context.Context, s jetstream.Stream, shown uint64) error {
	ctx, cancel := f.bucket.limit(ctx)
	defer cancel()
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(f.bucket.prefix()+">"))
	if err != nil {
		return fmt.Errorf("list bucket %s: %w", f.bucket.name, told(ctx, err))
	}
	keys := make(map[string]bool, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		keys[strings.TrimPrefix(subject, f.bucket.prefix())] = true
	}
	if !keys[ownerKey] {
		if _, err := f.bucket.claim(ctx, s); err != nil {
			return err
		}
	}
	for _, key := range f.mirror.lacking(keys) {
		c, err := f.bucket.lastOf(ctx, s, key)
		if err != nil {
			return fmt.Errorf("list bucket %s: %w", f.bucket.name, told(ctx, err))
		}
		if c.revision > 0 {
			f.mirror.learn(c)
		}
	}
	if gone := f.mirror.settle(keys, info.State.LastSeq, shown); gone > 0 {
		f.log.Warn("objects have vanished from the bucket, and nobody has said that they are deleted", zap.Int("objects", gone))
	}
	return nil
}

// stay follows the tail for as long as it shows what there is.
func (f *follower) stay(ctx context.Context, s jetstream.Stream, t *tail) error {
	tick := time.NewTicker(f.check)
	defer tick.Stop()
	before := ^uint64(0)
	for {
		select {
		case err := <-t.broken:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-f.doubt:
		case <-tick.C:
		}
		if err := f.verify(ctx, s, t, &before); err != nil {
			return err
		}
	}
}

// verify compares the mirror with what the server says of the bucket: the server does not
// say when it removes keys without leaving word, or the bucket altogether. before is how
// much had come when the mirror was found to be behind, and no tail may be for long.
func (f *follower) verify(ctx context.Context, s jetstream.Stream, t *tail, before *uint64) error {
	request, cancel := f.bucket.limit(ctx)
	defer cancel()
	info, err := s.Info(request)
	if err != nil {
		return fmt.Errorf("look at bucket %s: %w", f.bucket.name, told(request, err))
	}
	keys, seen := f.mirror.count()
	came, _ := t.progress()
	switch {
	case !info.Created.Equal(f.created), info.State.LastSeq < seen:
		return errAgain // and compare says why
	case info.State.LastSeq == seen && info.State.NumSubjects != keys:
		return f.reconcile(ctx, s, seen)
	case info.State.LastSeq == seen:
		return nil
	}
	more, err := f.bucket.after(ctx, s, seen)
	switch {
	case err != nil:
		return fmt.Errorf("look at bucket %s: %w", f.bucket.name, err)
	case !more: // what came last was removed again
		f.mirror.reach(info.State.LastSeq)
	case came == *before:
		f.log.Info("the watch does not show what there is, and is begun anew")
		return errAgain
	}
	*before = came
	return nil
}
