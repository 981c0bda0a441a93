package filelink

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/mux"
)

// How often folders are looked at, how often a side says that it is there, and how long it
// may be silent.
const (
	poll    = 2 * time.Millisecond
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

func (h hello) name() string { return fmt.Sprint(h.Process, ".", h.Round) }

// packet returns the file of the n-th packet.
func (h hello) packet(n int) string { return fmt.Sprint("p.", h.name(), ".", n) }

// A line is what there is between the two folders.
type line struct {
	me, them hello
	said     hello        // what me was when it was written,
	at       time.Time    // and when
	heard    time.Time    // when them was another
	session  *mux.Session // nil while there is no connection
	sent     int          // packets, of which so many are known to be taken:
	gone     int
	process  string // of the peer whose log was read
}

// look does what there is to do.
func (l *link) look(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.check() // what fails now fails in Send, too
	c, h := &l.line, hello{}
	if text, err := os.ReadFile(filepath.Join(l.dir, "peer", "hello")); err == nil {
		_ = json.Unmarshal(text, &h) // what is no hello is none
	}
	if h != c.them {
		c.heard = now
	}
	there := h.Process != "" && now.Sub(c.heard) < silence
	if c.session != nil && (!there || h.name() != c.them.name() || h.Hears != c.me.name()) {
		l.disconnect()
	}
	if c.them, c.me.Hears = h, ""; there {
		c.me.Hears = h.name()
	}
	if c.session == nil && there && h.Hears == c.me.name() {
		l.connect()
	}
	if c.session != nil && l.exchange(now) != nil {
		l.disconnect()
	}
	if c.me != c.said || now.Sub(c.at) >= beat {
		c.me.Beat++
		text, err := json.Marshal(c.me)
		if err == nil && replace(filepath.Join(l.dir, "hello"), text) == nil {
			c.said, c.at = c.me, now
		}
	}
}

func (l *link) connect() {
	if l.line.process != l.line.them.Process { // its log may be written anew
		l.line.process, l.reading = l.line.them.Process, reading{}
	}
	l.line.session = l.streams.Begin()
	l.tell(transport.Delivery{Event: transport.Up, Presence: l.line.them.Presence})
}

func (l *link) disconnect() {
	l.streams.End("the other folder is out of reach")
	l.hush()
	c := &l.line
	c.session, c.sent, c.gone, c.me.Taken = nil, 0, 0, 0
	c.me.Round++
	l.tell(transport.Delivery{Event: transport.Down})
}

// hush removes the packets that were not taken.
func (l *link) hush() {
	for ; l.line.gone < l.line.sent; l.line.gone++ {
		os.Remove(filepath.Join(l.dir, l.line.me.packet(l.line.gone)))
	}
}

// exchange reads what is new in the peer's folder, and writes what streams have to send.
func (l *link) exchange(now time.Time) error {
	c, peer := &l.line, filepath.Join(l.dir, "peer")
	_ = l.reading.read(filepath.Join(peer, "log"), func(r row) { // what cannot be read now is read later
		l.at++
		l.tell(transport.Delivery{Event: transport.Value, Message: r.message(), At: l.at})
	})
	for {
		packet, err := os.ReadFile(filepath.Join(peer, c.them.packet(c.me.Taken)))
		if err != nil {
			break // there are no more
		}
		if err := c.session.Take(packet, now); err != nil {
			return err
		}
		c.me.Taken++
	}
	for ; c.gone < min(c.them.Taken, c.sent); c.gone++ {
		os.Remove(filepath.Join(l.dir, c.me.packet(c.gone)))
	}
	for {
		packet := c.session.Next(nil, now)
		if len(packet) == 0 {
			return nil
		}
		if err := replace(filepath.Join(l.dir, c.me.packet(c.sent)), packet); err != nil {
			return err
		}
		c.sent++
	}
}

// replace replaces a file as a whole.
func replace(file string, text []byte) error {
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
