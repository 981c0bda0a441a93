package natslink

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// A wire is what reaches the peer of a Link. It is a connection of the Link's own (ownWire), or its
// share in one that the Links of many agents have (sharedWire).
type wire interface {
	// Publish says data on a subject.
	Publish(subject string, data []byte) error
	// Subscribe has f called, by one goroutine, with what is said on a subject, until Close.
	Subscribe(subject string, f nats.MsgHandler) (*nats.Subscription, error)
	// request asks, and returns the answer. It returns nats.ErrNoResponders if nobody listens, and
	// errUnanswered if there is none within some time, or before stop holds an element.
	request(ctx context.Context, subject string, data []byte, within time.Duration, stop <-chan struct{}) (*nats.Msg, error)
	// flush waits until all that was said is under way.
	flush(patience time.Duration) error
	// remade returns how often the connection was made again: what was under way then may be lost.
	remade() uint64
	// Close gives up what belongs to the Link.
	Close()
}

// An ownWire is a connection that leads to one peer only.
type ownWire struct{ *sharedWire }

// newOwnWire returns the wire that nc is. What is awaited on it gets there on subjects that are shorter
// than those that the client itself would make up: they cross the link twice with each heartbeat.
func newOwnWire(nc *nats.Conn, inbox string) ownWire {
	// An answer to a process before, which asked on the same subjects, is no answer to this one.
	return ownWire{newSharedWire(nc, inbox+"."+rand.Text()[:6])}
}

// Close implements wire.
func (w ownWire) Close() { w.Conn.Close() }

// A sharedWire is a Link's share in a connection. What its peer may answer on is the Link's own.
type sharedWire struct {
	*nats.Conn
	inbox string // prefix of the subjects on which answers are awaited
	once  sync.Once

	mu     sync.Mutex
	subs   []*nats.Subscription
	asked  uint64
	waits  map[string]chan *nats.Msg // by the subject of the answer
	failed error                     // why answers are not heard
}

func newSharedWire(nc *nats.Conn, inbox string) *sharedWire {
	return &sharedWire{Conn: nc, inbox: inbox, waits: map[string]chan *nats.Msg{}}
}

// Subscribe implements wire.
func (w *sharedWire) Subscribe(subject string, f nats.MsgHandler) (*nats.Subscription, error) {
	sub, err := w.Conn.Subscribe(subject, f)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.subs = append(w.subs, sub)
	return sub, nil
}

// errUnanswered says that there is no answer.
var errUnanswered = errors.New("no answer")

func (w *sharedWire) request(ctx context.Context, subject string, data []byte, within time.Duration, stop <-chan struct{}) (*nats.Msg, error) {
	w.once.Do(func() { _, w.failed = w.Subscribe(w.inbox+".*", w.answered) })
	if w.failed != nil {
		return nil, fmt.Errorf("natslink: await answers: %w", w.failed)
	}
	reply, answer := w.await()
	defer w.forget(reply)
	if err := w.PublishRequest(subject, reply, data); err != nil {
		return nil, err
	}
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case m := <-answer:
		if m.Header.Get("Status") == noResponders && len(m.Data) == 0 {
			return nil, nats.ErrNoResponders
		}
		return m, nil
	case <-late.C:
		return nil, errUnanswered
	case <-stop:
		return nil, errUnanswered
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// noResponders is what a server answers when nobody listens.
const noResponders = "503"

func (w *sharedWire) await() (reply string, answer <-chan *nats.Msg) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	reply = w.inbox + "." + strconv.FormatUint(w.asked, 10)
	c := make(chan *nats.Msg, 1)
	w.waits[reply] = c
	return reply, c
}

func (w *sharedWire) forget(reply string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waits, reply)
}

// answered takes in an answer. Only the first to a request is one.
func (w *sharedWire) answered(m *nats.Msg) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.waits[m.Subject]; c != nil {
		delete(w.waits, m.Subject)
		c <- m
	}
}

func (w *sharedWire) flush(patience time.Duration) error { return w.FlushTimeout(patience) }

func (w *sharedWire) remade() uint64 { return w.Stats().Reconnects }

// Close implements wire. The connection stays.
func (w *sharedWire) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, sub := range w.subs {
		_ = sub.Unsubscribe() // it fails only once the connection is closed
	}
	w.subs = nil
}
