package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// A Cause says what could not be done.
type Cause string

// The causes.
const (
	Unreadable Cause = "unreadable" // a message of the peer's cannot be read
	Refused    Cause = "refused"    // the store does not accept what the peer says
	Occupied   Cause = "occupied"   // an object that is not the peer's has the place
	Unsent     Cause = "unsent"     // the link does not accept what is to be said
	Failing    Cause = "failing"    // the store fails at what the peer says again and again, and is tried further
)

// Causes returns all causes.
func Causes() []Cause { return []Cause{Unreadable, Refused, Occupied, Unsent, Failing} }

// A Letter is what could not be taken in or handed over.
type Letter struct {
	ID     string          `json:"id"`  // given by the Book: the same for the same key and cause
	Key    string          `json:"key"` // of the message, as it stands on the wire
	Cause  Cause           `json:"cause"`
	Reason string          `json:"reason"` // for people
	First  time.Time       `json:"first"`  // when it was seen first
	Last   time.Time       `json:"last"`   // and last
	Count  int             `json:"count"`  // how often it came with another reason
	Event  json.RawMessage `json:"event,omitempty"`
}

// idOf returns a short id, which is unique among the letters of one peer.
func idOf(peer, key string, cause Cause) string {
	h := sha256.New()
	for _, text := range []string{peer, key, string(cause)} {
		h.Write([]byte(text))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}
