package natslink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Bounds of one read, and so of one answer. A row alone may be larger.
const (
	batchRows  = 512
	batchBytes = 1 << 20
)

// readPatience is how long the server, in the same process, may take for a batch.
const readPatience = 10 * time.Second

// A batch is a part of a stream.
type batch struct {
	rows []row
	more bool // there were more rows behind them
}

// errNoStream says that a stream cannot be used since it is not there.
var errNoStream = errors.New("stream is gone")

// read implements shelf. What it reads is known to be there, also if it is not acked yet.
//
// It is the server's direct batch get. A consumer would do the same with more state: one
// that must be made, that may vanish, and that takes 10 ms to stop.
func (s *stream) read(ctx context.Context, seq uint64) (batch, error) {
	if rows, ok := s.tail.from(seq, s.end()); ok {
		return batch{rows: rows}, nil
	}
	s.vault.gate.RLock()
	defer s.vault.gate.RUnlock()
	epoch := s.end().Epoch
	b, err := s.upToDate(ctx, seq)
	if err != nil {
		return batch{}, fmt.Errorf("natslink: read %s from %d: %w", s.name, seq, err)
	}
	if n := len(b.rows); n > 0 {
		s.advance(epoch, b.rows[n-1].seq)
	}
	return b, nil
}

// upToDate is request of a replica that has all that is known to be in the stream. Any replica may
// answer, and a moment after the leader has confirmed a message some may not have it yet: what
// they lack would be taken for what is not there.
func (s *stream) upToDate(ctx context.Context, seq uint64) (batch, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readPatience, errBehind)
	defer cancel()
	for {
		b, err := s.insist(ctx, seq)
		if err != nil || b.more || s.vault.replicas <= 1 {
			return b, err
		}
		next := seq
		if n := len(b.rows); n > 0 {
			next = b.rows[n-1].seq + 1
		}
		behind, err := s.follows(ctx, next)
		if err != nil || !behind {
			return b, err
		}
		if err := sleep(ctx, catchUp); err != nil {
			return batch{}, err
		}
	}
}

// errBehind says that no replica has what the leader has.
var errBehind = errors.New("the replica that answers stays behind")

// catchUp is what a replica is given to take in what the leader has.
const catchUp = 20 * time.Millisecond

// follows asks the leader whether there is anything from seq on that is known to be in the stream.
func (s *stream) follows(ctx context.Context, seq uint64) (bool, error) {
	if seq > s.end().Seq {
		return false, nil
	}
	request, err := json.Marshal(map[string]any{"seq": seq, "next_by_subj": s.prefix + ">"})
	if err != nil {
		return false, err
	}
	follows := false
	err = s.patiently(ctx, s.vault.patience, func(ctx context.Context) error {
		m, err := s.js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+s.name, request)
		if err != nil {
			return err
		}
		var answer struct{ Error *jetstream.APIError }
		err = json.Unmarshal(m.Data, &answer)
		switch {
		case err != nil:
			return err
		case answer.Error == nil:
			follows = true
		case answer.Error.Code != http.StatusNotFound: // else the last of it was a tombstone, and is forgotten
			return answer.Error
		}
		return nil
	})
	return follows, err
}

// insist is request, and again if nothing comes: elsewhere a server may be gone before it has answered, and
// nobody says so. Each time it waits longer, for those that have much to do.
func (s *stream) insist(ctx context.Context, seq uint64) (batch, error) {
	silence := readPatience
	if !s.here() {
		silence = 2 * s.vault.patience
	}
	for {
		b, err := s.request(ctx, seq, silence)
		if !errors.Is(err, errSilent) {
			return b, err
		}
		s.vault.suspect()
		silence *= 2
	}
}

// errSilent says that a server does not answer.
var errSilent = errors.New("the server does not answer")

func (s *stream) request(ctx context.Context, seq uint64, silence time.Duration) (b batch, err error) {
	nc := s.js.Conn()
	answers := make(chan *nats.Msg, batchRows+1)
	inbox, err := nc.ChanSubscribe(nc.NewInbox(), answers) // its own, for what comes late is no answer to another
	if err != nil {
		return batch{}, err
	}
	defer func() {
		// The connection may be gone, and with it the subscription.
		if e := inbox.Unsubscribe(); err == nil && e != nil {
			b, err = batch{}, e
		}
	}()
	request, err := json.Marshal(map[string]any{"seq": max(seq, 1), "batch": batchRows, "max_bytes": batchBytes})
	if err != nil {
		return batch{}, err
	}
	if err := nc.PublishRequest("$JS.API.DIRECT.GET."+s.name, inbox.Subject, request); err != nil {
		return batch{}, err
	}
	late := time.NewTimer(silence)
	defer late.Stop()
	for {
		select {
		case m := <-answers:
			if end, err := s.take(&b, m); end || err != nil {
				return b, err
			}
			late.Reset(silence)
		case <-late.C:
			return batch{}, errSilent
		case <-ctx.Done():
			return batch{}, context.Cause(ctx)
		}
	}
}

// take adds what m brings to b, and reports whether it is the end of it.
func (s *stream) take(b *batch, m *nats.Msg) (end bool, err error) {
	switch status := m.Header.Get("Status"); status {
	case "":
		r, err := s.row(m)
		b.rows = append(b.rows, r)
		return false, err
	case "204": // the end
		pending := m.Header.Get("Nats-Num-Pending")
		b.more = pending != "" && pending != "0"
		return true, nil
	case "404": // nothing from there on
		return true, nil
	case "503":
		return true, errNoStream
	default:
		return true, fmt.Errorf("server says %s %s", status, m.Header.Get("Description"))
	}
}

// row returns what m, of a direct get, carries, without what the server has added.
func (s *stream) row(m *nats.Msg) (row, error) {
	seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return row{}, fmt.Errorf("message without place: %w", err)
	}
	tail, ok := strings.CutPrefix(m.Header.Get("Nats-Subject"), s.prefix)
	if !ok {
		return row{}, fmt.Errorf("message %d of foreign subject", seq)
	}
	return row{seq: seq, tail: tail, header: kept(m.Header), data: m.Data}, nil
}
