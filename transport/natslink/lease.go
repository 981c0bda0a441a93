package natslink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// leaseStream is where it is kept which principal serves, leaseSubject the subject there, and leaseAsk
// what is before a process's name where it is asked whether it still does.
const (
	leaseStream  = "PRINCIPAL"
	leaseSubject = "fabric-lease"
	leaseAsk     = "fabric-principal."
)

// Times of a lease.
const (
	leasePatience = 5 * time.Second        // another principal may take so long to end
	leasePause    = 250 * time.Millisecond // between two looks
	leaseAnswer   = time.Second            // within which a holder answers, if it lives
	leaseAsks     = 3                      // without an answer: it does not
	leaseEvery    = 10 * time.Second       // a holder looks whether it still is one
)

// A lease is held by the one principal that serves on servers elsewhere: two would write the same streams,
// each would answer a part of what the servers ask, and each would cut off whom the other has let in.
//
// What is kept is who holds it, and it is taken by a write on the condition that nobody else has since it
// was read. It does not expire: whoever wants it asks the holder, and takes it if there is no answer. The
// servers say at once that nobody listens when a process was killed, so that its successor need not wait;
// one that is cut off, or hangs, is waited for a few seconds, and ends when it finds that it was replaced.
// The place of the record in its stream grows with each holder, and so can tell an old one from a new one.
type lease struct {
	self     holder
	log      *zap.Logger
	patience time.Duration
	every    time.Duration

	stream jetstream.Stream // set by take
}

// A holder is a principal that has a lease.
type holder struct {
	Process string    `json:"process"`
	Host    string    `json:"host"`
	Since   time.Time `json:"since"`
}

func newLease(process string, log *zap.Logger) *lease {
	host, err := os.Hostname()
	if err != nil {
		host = "a host without a name"
	}
	return &lease{self: holder{Process: process, Host: host}, log: log, patience: leasePatience, every: leaseEvery}
}

// take takes the lease, or returns an error that says who has it. Who asks is answered on all connections.
func (l *lease) take(ctx context.Context, js jetstream.JetStream, replicas int, conns []*nats.Conn) (err error) {
	err = untilAnswered(ctx, func(ctx context.Context) (err error) {
		l.stream, err = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: leaseStream, Subjects: []string{leaseSubject}, MaxMsgsPerSubject: 1, MaxBytes: MinQuota, Storage: jetstream.FileStorage, Replicas: replicas,
		})
		return err
	})
	if err != nil {
		return noRoom(fmt.Errorf("natslink: open stream %s: %w", leaseStream, err))
	}
	for _, nc := range conns {
		_, err := nc.QueueSubscribe(leaseAsk+l.self.Process, "principal", func(m *nats.Msg) { _ = m.Respond(nil) }) // who asks asks again
		if err == nil {
			err = nc.FlushTimeout(connectPatience)
		}
		if err != nil {
			return fmt.Errorf("natslink: say who serves: %w", err)
		}
	}
	return l.wait(ctx, js)
}

// wait waits for another principal to end, for a while, and takes its place.
func (l *lease) wait(ctx context.Context, js jetstream.JetStream) error {
	until, told := time.Now().Add(l.patience), false
	for {
		other, err := l.attempt(ctx, js)
		switch {
		case err == nil && other == nil:
			return nil
		case time.Now().After(until) && err != nil:
			return fmt.Errorf("natslink: say who serves: %w", err)
		case time.Now().After(until):
			return other.serves()
		case other != nil && !told:
			told = true
			l.log.Warn("another principal serves agents on these NATS servers, and is given a moment to end", zap.String("host", other.Host), zap.Time("since", other.Since))
		}
		if err := sleep(ctx, leasePause); err != nil {
			return err
		}
	}
}

// serves says that there is another principal.
func (h holder) serves() error {
	return fmt.Errorf("natslink: another principal serves agents on these NATS servers, on host %s since %s, as process %s: there can be one; stop it, or have this one use other servers (--nats-url)",
		h.Host, h.Since.Format(time.RFC3339), h.Process)
}

// attempt takes the lease, or returns who has it.
func (l *lease) attempt(ctx context.Context, js jetstream.JetStream) (other *holder, err error) {
	var before holder
	var place uint64
	err = untilAnswered(ctx, func(ctx context.Context) (err error) {
		before, place, err = l.read(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	if place > 0 && before.Process != l.self.Process && lives(ctx, js.Conn(), before) {
		return &before, nil
	}
	l.self.Since = time.Now().UTC()
	record, err := json.Marshal(l.self)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeAnswer)
	defer cancel()
	_, err = js.Publish(ctx, leaseSubject, record, jetstream.WithExpectLastSequencePerSubject(place))
	return nil, err // that somebody was quicker, too, who is found the next time
}

// read returns who has taken the lease last, and the place of the record, 0 if there is none.
func (l *lease) read(ctx context.Context) (h holder, place uint64, err error) {
	m, err := l.stream.GetLastMsgForSubject(ctx, leaseSubject)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return h, 0, nil
	case err != nil:
		return h, 0, err
	}
	_ = json.Unmarshal(m.Data, &h) // what is no record is of nobody who lives
	return h, m.Sequence, nil
}

// lives reports whether a holder answers.
func lives(ctx context.Context, nc *nats.Conn, h holder) bool {
	for range leaseAsks {
		ctx, cancel := context.WithTimeout(ctx, leaseAnswer)
		_, err := nc.RequestWithContext(ctx, leaseAsk+h.Process, nil)
		cancel()
		if err == nil {
			return true
		}
		if errors.Is(err, nats.ErrNoResponders) {
			return false
		}
	}
	return false
}

// keep returns once another principal has taken the lease, with an error, or ctx is done.
func (l *lease) keep(ctx context.Context) error {
	for sleep(ctx, l.every) == nil {
		asked, cancel := context.WithTimeout(ctx, leaseAnswer)
		now, place, err := l.read(asked)
		cancel()
		if err == nil && place > 0 && now.Process != l.self.Process {
			return now.serves()
		}
	}
	return nil
}
