package filelink

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/mux"
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

// The first byte of a packet says what it holds: rows, or a packet of streams.
const (
	ofRows    = 'r'
	ofStreams = 's'
)

// A line is what there is between the two folders.
type line struct {
	me, them, said hello
	at, heard      time.Time    // when me was said, and when them was another
	session        *mux.Session // nil while there is no connection
	sent, gone     int          // packets that were sent, and that the peer has taken
}

// look does what there is to do.
func (l *link) look(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.check() // what fails now fails in Send, too
	c, h := &l.line, hello{}
	if text, err := os.ReadFile(l.path("peer/hello")); err == nil {
		_ = json.Unmarshal(text, &h) // what is no hello is none
	}
	if h != c.them {
		c.heard = now
	}
	there := h.Process != "" && now.Sub(c.heard) < silence
	if c.session != nil && (!there || h.name() != c.them.name() || h.Hears != c.me.name() || l.exchange(now) != nil) {
		l.disconnect()
	}
	if c.them, c.me.Hears = h, ""; there {
		c.me.Hears = h.name()
	}
	if c.session == nil && there && h.Hears == c.me.name() {
		c.session = l.streams.Begin()
		l.tell("", transport.Delivery{Event: transport.Up, Presence: h.Presence})
		for k := range l.rows {
			l.unsent[k] = true
		}
	}
	if c.me != c.said || now.Sub(c.at) >= beat {
		c.me.Beat++
		if text, err := json.Marshal(c.me); err == nil && replace(l.path("hello"), text) == nil {
			c.said, c.at = c.me, now
		}
	}
}

func (l *link) disconnect() {
	l.streams.End("the other folder is out of reach")
	l.hush()
	c := &l.line
	c.session, c.sent, c.gone, c.me.Taken = nil, 0, 0, 0
	c.me.Round++
	l.tell("", transport.Delivery{Event: transport.Down})
}

// hush removes the packets that were not taken.
func (l *link) hush() {
	for ; l.line.gone < l.line.sent; l.line.gone++ {
		os.Remove(l.path(l.line.me.packet(l.line.gone)))
	}
}

// exchange reads the packets that have come, and writes what there is to send.
func (l *link) exchange(now time.Time) error {
	c := &l.line
	for ; ; c.me.Taken++ {
		text, err := os.ReadFile(l.path("peer/" + c.them.packet(c.me.Taken)))
		if err != nil {
			break // there are no more
		}
		if err := l.take(text, now); err != nil {
			return err
		}
	}
	for ; c.gone < min(c.them.Taken, c.sent); c.gone++ {
		os.Remove(l.path(c.me.packet(c.gone)))
	}
	if len(l.unsent) > 0 {
		var rows []row
		for k := range l.unsent {
			rows = append(rows, l.rows[k])
		}
		b := bytes.NewBufferString(string(ofRows))
		if err := gob.NewEncoder(b).Encode(rows); err != nil {
			return err
		}
		if err := l.send(b.Bytes()); err != nil {
			return err
		}
		clear(l.unsent)
	}
	for {
		text := c.session.Next([]byte{ofStreams}, now)
		if len(text) == 1 {
			return nil
		}
		if err := l.send(text); err != nil {
			return err
		}
	}
}

func (l *link) take(text []byte, now time.Time) error {
	if text[0] == ofStreams {
		return l.line.session.Take(text[1:], now)
	}
	var rows []row
	if err := gob.NewDecoder(bytes.NewReader(text[1:])).Decode(&rows); err != nil {
		return err
	}
	for _, r := range rows {
		l.tell(r.Key, transport.Delivery{Event: transport.Value, Message: r.message()})
	}
	return nil
}

func (l *link) send(text []byte) error {
	l.line.sent++
	return replace(l.path(l.line.me.packet(l.line.sent-1)), text)
}

// replace replaces a file as a whole.
func replace(file string, text []byte) error {
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
