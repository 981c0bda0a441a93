package memlink

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A direction is one log and the copy of it on the other side. The lock of its line guards
// it.
type direction struct {
	epoch  string
	log    map[string]*row
	sent   uint64        // rows ever made
	moving queue         // keys whose last row is not in the copy
	copy   map[string]at // what has crossed
	place  uint64        // the highest place ever given in the copy
	waving bool          // a wave is due
	counts Traffic
}

// A row is the last message of a key in a log.
type row struct {
	message transport.Message
	seq     uint64 // rows are sorted by it
}

// An at is a row in its place of the copy.
type at struct {
	*row
	place uint64
}

func newDirection(epoch string) direction {
	return direction{epoch: epoch, log: map[string]*row{}, copy: map[string]at{}}
}

// put makes m the last message of its key.
func (d *direction) put(m transport.Message) {
	d.sent++
	d.log[m.Key] = &row{message: m, seq: d.sent}
	d.moving.push(m.Key)
}

// cross brings the last row of k into the copy, if there is one.
func (d *direction) cross(k string) (v at, ok bool) {
	r := d.log[k]
	if r == nil {
		return v, false
	}
	d.place++
	v = at{r, d.place}
	d.copy[k] = v
	switch {
	case reserved(k):
		d.counts.Reserved++
	case r.message.Tombstone():
		d.counts.Tombstones++
	default:
		d.counts.Values++
	}
	return v, true
}

// begin begins a new log.
func (d *direction) begin(epoch string) {
	d.epoch, d.log, d.moving = epoch, map[string]*row{}, queue{}
}

// empty empties the copy. It is to be filled again from the log.
func (d *direction) empty() {
	d.copy = map[string]at{}
	rows := slices.SortedFunc(maps.Values(d.log), func(a, b *row) int { return cmp.Compare(a.seq, b.seq) })
	for _, r := range rows {
		d.moving.push(r.message.Key)
	}
}

// kept returns the copy in the order of its places.
func (d *direction) kept() []at {
	return slices.SortedFunc(maps.Values(d.copy), func(a, b at) int { return cmp.Compare(a.place, b.place) })
}

// age forgets all tombstones.
func (d *direction) age() {
	maps.DeleteFunc(d.log, func(_ string, r *row) bool { return r.message.Tombstone() })
	maps.DeleteFunc(d.copy, func(_ string, v at) bool { return v.message.Tombstone() })
}

func reserved(key string) bool { return strings.HasPrefix(key, "$") }
