package wire

import (
	"fmt"
	"strconv"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// The protocol versions that this package reads and writes: the newest, and the two before
// it. A new one is a new Newest, and golden events of its own; those of the versions before
// stay as they are, and so does what is written in them.
//
// In every version an event has the extensions protocolversion, digest, uid, phase and after
// with the same meaning: logs are read by them alone, whoever wrote them.
const (
	Newest = 1
	Oldest = max(1, Newest-2)
)

// A Range is the protocol versions from Oldest to Newest.
type Range struct{ Oldest, Newest int }

// Spoken is the range of this package.
func Spoken() Range { return Range{Oldest, Newest} }

// Has reports whether the version v is in the range.
func (r Range) Has(v int) bool { return r.Oldest <= v && v <= r.Newest }

// Holds reports whether all of s is in the range.
func (r Range) Holds(s Range) bool { return r.Has(s.Oldest) && r.Has(s.Newest) }

// With returns the versions that are in both ranges. It reports false if there is none.
func (r Range) With(s Range) (both Range, ok bool) {
	both = Range{max(r.Oldest, s.Oldest), min(r.Newest, s.Newest)}
	return both, both.Oldest <= both.Newest
}

// String returns "3", or "2 to 4".
func (r Range) String() string {
	if r.Oldest == r.Newest {
		return strconv.Itoa(r.Oldest)
	}
	return fmt.Sprintf("%d to %d", r.Oldest, r.Newest)
}

// VersionOf returns the protocol version that a message says it is written in. It reports
// false if it says none.
func VersionOf(m transport.Message) (v int, ok bool) {
	if m.Event.Context == nil {
		return 0, false
	}
	v, err := strconv.Atoi(extended(m.Event).text("protocolversion"))
	return v, err == nil
}

// check returns why an event whose protocolversion is text cannot be read.
func (r Range) check(text string) error {
	v, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return fmt.Errorf("%w: protocol version %q", ErrMalformed, text)
	case !r.Has(v):
		return fmt.Errorf("%w: it is of version %d, read is %s", transport.ErrVersion, v, r)
	}
	return nil
}
