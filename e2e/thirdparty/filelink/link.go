package filelink

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/packetlink"
)

// How often a side says that it is there, and how long it may be silent.
const (
	beat    = 100 * time.Millisecond
	silence = 5 * time.Second
)

// A hello is what a side says of itself. The sides are connected while each hears the
// other's name, which is another one after every connection that the side has lost.
type hello struct {
	transport.Presence
	Round, Beat int
	Hears       string
	Taken       int // packets of this connection
}

func (h hello) name() string        { return fmt.Sprint(h.Process, ".", h.Round) }
func (h hello) packet(n int) string { return fmt.Sprint("p.", h.name(), ".", n) }

// A link is one end. Its run looks at the folders, and does what there is to do.
type link struct {
	*packetlink.End
	dir  string
	done chan struct{} // closed with the link
	once sync.Once
	over sync.WaitGroup

	me, them, said hello
	at, heard      time.Time              // when me was said, and when them was another
	conn           *packetlink.Connection // nil while there is none
	sent, gone     int                    // packets that were sent, and that the peer has taken
}

func open(dir, name, peer string, p transport.Presence) (transport.Link, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	end, err := packetlink.Open(packetlink.Config{Local: name, Peer: peer, Keeper: &packetlink.File{Path: filepath.Join(dir, "log")}})
	if err != nil {
		return nil, err
	}
	l := &link{End: end, dir: dir, done: make(chan struct{}), me: hello{Presence: p}}
	l.me.Process = rand.Text()
	l.over.Go(l.run)
	return l, nil
}

func (l *link) path(name string) string { return filepath.Join(l.dir, name) }

// Close implements transport.Link.
func (l *link) Close() error {
	l.once.Do(func() { close(l.done) })
	l.over.Wait()
	return l.End.Close()
}

func (l *link) run() {
	for {
		l.look(time.Now())
		select {
		case <-time.After(2 * time.Millisecond):
		case <-l.TableReady():
		case <-l.StreamsReady():
		case <-l.done:
			l.hush()
			os.Remove(l.path("hello")) // if it stays, the peer notices a little later
			return
		}
	}
}

// look does what there is to do.
func (l *link) look(now time.Time) {
	_ = l.Check() // what fails now fails in Send, too
	h := hello{}
	if text, err := os.ReadFile(l.path("peer/hello")); err == nil {
		_ = json.Unmarshal(text, &h) // what is no hello is none
	}
	if h != l.them {
		l.heard = now
	}
	there := h.Process != "" && now.Sub(l.heard) < silence
	if l.conn != nil && (!there || h.name() != l.them.name() || h.Hears != l.me.name() || l.exchange(now) != nil) {
		l.disconnect()
	}
	if l.them, l.me.Hears = h, ""; there {
		l.me.Hears = h.name()
	}
	if l.conn == nil && there && h.Hears == l.me.name() {
		l.conn = l.Begin(h.Presence)
	}
	if l.me != l.said || now.Sub(l.at) >= beat {
		l.me.Beat++
		if text, err := json.Marshal(l.me); err == nil && replace(l.path("hello"), text) == nil {
			l.said, l.at = l.me, now
		}
	}
}

func (l *link) disconnect() {
	l.End.End(l.conn, "the other folder is out of reach")
	l.hush()
	l.conn, l.sent, l.gone, l.me.Taken = nil, 0, 0, 0
	l.me.Round++
}

// hush removes the packets that were not taken.
func (l *link) hush() {
	for ; l.gone < l.sent; l.gone++ {
		os.Remove(l.path(l.me.packet(l.gone)))
	}
}

// exchange reads the packets that have come, and writes what there is to send.
func (l *link) exchange(now time.Time) error {
	for ; ; l.me.Taken++ {
		packet, err := os.ReadFile(l.path("peer/" + l.them.packet(l.me.Taken)))
		if err != nil {
			break // there are no more
		}
		if err := l.conn.Take(packet, now); err != nil {
			return err
		}
	}
	for ; l.gone < min(l.them.Taken, l.sent); l.gone++ {
		os.Remove(l.path(l.me.packet(l.gone)))
	}
	for {
		packet := l.conn.Next(nil, now)
		if len(packet) == 0 {
			return nil
		}
		l.sent++
		if err := replace(l.path(l.me.packet(l.sent-1)), packet); err != nil {
			return err
		}
	}
}

// replace replaces a file as a whole.
func replace(file string, text []byte) error {
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
