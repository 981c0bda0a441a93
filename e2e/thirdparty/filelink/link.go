package filelink

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/mux"
)

// A link is one end. Its run looks at the folders, and does what there is to do.
type link struct {
	dir, peer string
	streams   *mux.Mux
	changed   chan struct{} // holds a token if there may be something to receive
	stirred   chan struct{} // holds a token if there may be something to do
	done      chan struct{} // closed once the Link is closed
	ended     chan struct{} // closed once run has ended

	mu      sync.Mutex
	log     *os.File
	epoch   string
	rows    map[string]row // what is in the log
	queue   []*transport.Delivery
	values  map[string]*transport.Delivery // those in the queue
	at      uint64
	reading reading
	line    line
}

// A row is a message in a log.
type row struct {
	Key, Digest string
	Event       event.Event // without data
	Data        []byte
}

func (r row) message() transport.Message {
	r.Event.DataEncoded = r.Data
	return transport.Message{Key: r.Key, Digest: r.Digest, Event: r.Event.Clone()}
}

func newLink(dir, name, peer string, p transport.Presence) (*link, error) {
	p.Process = rand.Text()
	l := &link{
		dir: dir, peer: peer, rows: map[string]row{}, values: map[string]*transport.Delivery{},
		changed: make(chan struct{}, 1), stirred: make(chan struct{}, 1), done: make(chan struct{}), ended: make(chan struct{}),
		line: line{me: hello{Presence: p}},
	}
	l.streams = mux.New(mux.Config{Local: name, Peer: peer, Wake: func() { signal(l.stirred) }})
	l.tell(transport.Delivery{Event: transport.Replayed})
	old := reading{}
	err := old.read(filepath.Join(dir, "log"), func(r row) { l.rows[r.Key] = r })
	if err == nil || os.IsNotExist(err) {
		err = l.begin(old.epoch)
	}
	if err != nil {
		return nil, err
	}
	go l.run()
	return l, nil
}

// begin writes the log anew, under an epoch; "" is another one.
func (l *link) begin(epoch string) (err error) {
	if l.epoch = epoch; epoch == "" {
		l.epoch = rand.Text()
		clear(l.rows)
	}
	if err = os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	if l.log, err = os.Create(filepath.Join(l.dir, "log.new")); err != nil {
		return err
	}
	e := json.NewEncoder(l.log)
	err = e.Encode(l.epoch)
	for r := range maps.Values(l.rows) {
		if err == nil {
			err = e.Encode(r)
		}
	}
	if err == nil {
		err = os.Rename(l.log.Name(), filepath.Join(l.dir, "log"))
	}
	return err
}

// check begins a log of another epoch if somebody has taken the log away.
func (l *link) check() error {
	is, err := os.Stat(filepath.Join(l.dir, "log"))
	if was, _ := l.log.Stat(); err == nil && os.SameFile(is, was) {
		return nil
	}
	l.log.Close() // nobody will read it
	l.tell(transport.Delivery{Event: transport.LogLost})
	return l.begin("")
}

// A reading is how far a log was read.
type reading struct {
	epoch string
	to    int64
}

// read calls f for each message that is new, all of them if it is another log.
func (r *reading) read(path string, f func(row)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	d, epoch := json.NewDecoder(file), ""
	if err := d.Decode(&epoch); err != nil {
		return err
	}
	if epoch != r.epoch {
		*r = reading{epoch, d.InputOffset()}
	}
	if _, err := file.Seek(r.to, io.SeekStart); err != nil {
		return err
	}
	d = json.NewDecoder(file)
	for start := r.to; ; r.to = start + d.InputOffset() {
		var next row
		if err := d.Decode(&next); err != nil {
			return nil // it is not written yet, or not whole
		}
		f(next)
	}
}

// tell adds a delivery to the queue, or puts it in the place of one of its key.
func (l *link) tell(d transport.Delivery) {
	d.Ack = func() {}
	if was := l.values[d.Message.Key]; was != nil && d.Event == transport.Value {
		*was = d
		return
	}
	if l.queue = append(l.queue, &d); d.Event == transport.Value {
		l.values[d.Message.Key] = &d
	}
	signal(l.changed)
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (l *link) closed() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

func (l *link) usable(ctx context.Context) error {
	if l.closed() {
		return transport.ErrClosed
	}
	return context.Cause(ctx)
}

// Peer implements transport.Link.
func (l *link) Peer() string { return l.peer }

// Streams implements transport.Link.
func (l *link) Streams() transport.Streams { return l.streams }

// Log implements transport.Link.
func (l *link) Log(ctx context.Context) (transport.Log, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	log := transport.Log{Epoch: l.epoch, Keeps: true, Rows: map[string]transport.Message{}}
	for k, r := range l.rows {
		if k[0] != '$' {
			r.Data = nil
		}
		if r.Digest != "" {
			log.Rows[k] = r.message()
		}
	}
	return log, l.usable(ctx)
}

// Send implements transport.Link.
func (l *link) Send(ctx context.Context, m transport.Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := row{m.Key, m.Digest, m.Event.Clone(), m.Event.Data()}
	r.Event.DataEncoded = nil
	err := l.usable(ctx)
	if err == nil && len(r.Data) > transport.MaxMessage {
		err = transport.ErrTooLarge
	}
	if err == nil {
		err = l.check()
	}
	if err == nil {
		err = json.NewEncoder(l.log).Encode(r)
	}
	if err != nil {
		return fmt.Errorf("filelink: send %q to %s: %w", m.Key, l.peer, err)
	}
	l.rows[m.Key] = r
	return nil
}

// Receive implements transport.Link.
func (l *link) Receive(ctx context.Context) (transport.Delivery, error) {
	for {
		if d, err := l.next(ctx); d != nil || err != nil {
			return *d, err
		}
		select {
		case <-l.changed:
		case <-l.done:
		case <-ctx.Done():
		}
	}
}

func (l *link) next(ctx context.Context) (d *transport.Delivery, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(ctx); err != nil {
		return &transport.Delivery{}, err
	}
	if len(l.queue) > 0 {
		d, l.queue = l.queue[0], l.queue[1:]
		if d.Event == transport.Value {
			delete(l.values, d.Message.Key)
		}
	}
	return d, nil
}

// Close implements transport.Link.
func (l *link) Close() error {
	l.mu.Lock()
	if !l.closed() {
		close(l.done)
		l.streams.Close()
	}
	l.mu.Unlock()
	<-l.ended
	return nil
}

// run looks at the folders until the Link is closed.
func (l *link) run() {
	defer close(l.ended)
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !l.closed() {
		l.look(time.Now())
		select {
		case <-tick.C:
		case <-l.stirred:
		case <-l.done:
		}
	}
	l.hush()
	os.Remove(filepath.Join(l.dir, "hello")) // if it stays, the peer notices a little later
	l.log.Close()
}
