package transport

import (
	"fmt"
	"strings"
)

// Put takes the last Message of a key into what a log holds, as Log promises to show it.
// What m is shared with stays as it is.
func (l *Log) Put(m Message) {
	if l.Rows == nil {
		l.Rows = map[string]Message{}
	}
	if m.Tombstone() {
		delete(l.Rows, m.Key)
		return
	}
	if !strings.HasPrefix(m.Key, "$") {
		m.Event.DataEncoded = nil
	}
	m.Event = m.Event.Clone()
	l.Rows[m.Key] = m
}

// Fits returns ErrTooLarge, wrapped, if no Link has to take m.
func (m Message) Fits() error {
	if n := len(m.Event.Data()); n > MaxMessage {
		return fmt.Errorf("%w: %d bytes", ErrTooLarge, n)
	}
	return nil
}
