package filelink

import (
	"context"
	"crypto/rand"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/mux"
)

// A link is one end. Its run looks at the folders, and does what there is to do.
type link struct {
	dir, peer              string
	streams                *mux.Mux
	stir, news, done, over chan struct{} // look at the folders, at the queue; closed; run has ended

	mu     sync.Mutex
	file   *os.File // the log,
	log    *gob.Encoder
	epoch  string
	rows   map[string]row
	unsent map[string]bool // keys of rows
	told   map[string]transport.Delivery
	queue  []string // keys of told
	at     uint64   // how many were told
	line   line
}

// A row is a Message: its Event without data, and its data.
type row struct {
	Key, Digest string
	Event, Data []byte
}

func (r row) message() (m transport.Message) {
	m.Key, m.Digest = r.Key, r.Digest
	_ = json.Unmarshal(r.Event, &m.Event) // which Send has made
	m.Event.DataEncoded = r.Data
	return m
}

func newLink(dir, name, peer string, p transport.Presence) (*link, error) {
	l := &link{
		dir: dir, peer: peer, rows: map[string]row{}, told: map[string]transport.Delivery{}, line: line{me: hello{Presence: p}},
		stir: make(chan struct{}, 1), news: make(chan struct{}, 1), done: make(chan struct{}), over: make(chan struct{}),
	}
	l.line.me.Process = rand.Text()
	l.streams = mux.New(mux.Config{Local: name, Peer: peer, Wake: func() { signal(l.stir) }})
	l.tell("", transport.Delivery{Event: transport.Replayed})
	if f, err := os.Open(l.path("log")); err == nil {
		d := gob.NewDecoder(f)
		err = d.Decode(&l.epoch)
		for r := (row{}); err == nil; r = (row{}) {
			if err = d.Decode(&r); err == nil { // what is not whole was not sent
				l.rows[r.Key] = r
			}
		}
		f.Close()
	}
	if err := l.begin(); err != nil {
		return nil, err
	}
	go l.run()
	return l, nil
}

func (l *link) path(name string) string { return filepath.Join(l.dir, name) }

// begin writes the log anew.
func (l *link) begin() (err error) {
	if l.epoch == "" {
		l.epoch, l.rows = rand.Text(), map[string]row{}
	}
	if err = os.MkdirAll(l.dir, 0o700); err == nil {
		l.file, err = os.Create(l.path("log.new"))
	}
	if err != nil {
		return err
	}
	l.log, l.unsent = gob.NewEncoder(l.file), map[string]bool{}
	err = l.log.Encode(l.epoch)
	for k, r := range l.rows {
		if l.unsent[k] = true; err == nil {
			err = l.log.Encode(r)
		}
	}
	if err == nil {
		err = os.Rename(l.path("log.new"), l.path("log"))
	}
	return err
}

// check begins another log if somebody has taken the log away.
func (l *link) check() error {
	is, err := os.Stat(l.path("log"))
	if was, _ := l.file.Stat(); err == nil && os.SameFile(is, was) {
		return nil
	}
	l.file.Close()
	l.epoch = ""
	l.tell("", transport.Delivery{Event: transport.LogLost})
	return l.begin()
}

// tell has a Delivery received, in the place of another one of its key that was not yet.
func (l *link) tell(key string, d transport.Delivery) {
	l.at++
	if key == "" {
		key = "\x00" + strconv.FormatUint(l.at, 10)
	}
	if _, waits := l.told[key]; !waits {
		l.queue = append(l.queue, key)
	}
	d.At, d.Ack = l.at, func() {}
	l.told[key] = d
	signal(l.news)
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

// usable says why the link cannot be used.
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
	r := row{Key: m.Key, Digest: m.Digest, Data: m.Event.DataEncoded}
	m.Event.DataEncoded = nil
	text, err := json.Marshal(m.Event)
	r.Event = text
	l.mu.Lock()
	defer l.mu.Unlock()
	switch used := l.usable(ctx); {
	case used != nil:
		err = used
	case len(r.Data) > transport.MaxMessage:
		err = transport.ErrTooLarge
	case err == nil:
		if err = l.check(); err == nil {
			err = l.log.Encode(r)
		}
	}
	if err != nil {
		return fmt.Errorf("filelink: send %q to %s: %w", m.Key, l.peer, err)
	}
	l.rows[m.Key], l.unsent[m.Key] = r, true
	return nil
}

// Receive implements transport.Link.
func (l *link) Receive(ctx context.Context) (transport.Delivery, error) {
	for {
		if d, err := l.next(ctx); d.Ack != nil || err != nil {
			return d, err
		}
		select {
		case <-l.news:
		case <-l.done:
		case <-ctx.Done():
		}
	}
}

func (l *link) next(ctx context.Context) (d transport.Delivery, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err = l.usable(ctx); err == nil && len(l.queue) > 0 {
		d = l.told[l.queue[0]]
		delete(l.told, l.queue[0])
		l.queue = l.queue[1:]
	}
	return d, err
}

// Close implements transport.Link.
func (l *link) Close() error {
	l.mu.Lock()
	if !l.closed() {
		close(l.done)
	}
	l.mu.Unlock()
	<-l.over
	return nil
}

func (l *link) run() {
	for !l.closed() {
		l.look(time.Now())
		select {
		case <-time.After(2 * time.Millisecond):
		case <-l.stir:
		case <-l.done:
		}
	}
	l.streams.Close()
	l.hush()
	os.Remove(l.path("hello")) // if it stays, the peer notices a little later
	l.file.Close()
	close(l.over)
}
