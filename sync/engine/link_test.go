package engine_test

import (
	"math/rand/v2"
	"slices"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A linkKind is what a simulated link keeps.
type linkKind uint8

const (
	durable  linkKind = iota // as NATS: log and copy outlive both processes; either can be lost
	volatile                 // as gRPC: what is not yet acknowledged is kept, as long as its process
)

func (k linkKind) String() string { return [...]string{"durable", "volatile"}[k] }

// A keySet is iterated in order, so that a run can be repeated.
type keySet map[resource.Key]bool

func (s keySet) pick(r *rand.Rand) resource.Key { return sortedKeys(s)[r.IntN(len(s))] }

// A half is one direction of a link: the log, the copy, and what is on its way.
type half struct {
	kind  linkKind
	epoch string
	log   map[resource.Key]engine.Received // durable: the whole table; volatile: what is not acknowledged
	copy  map[resource.Key]engine.Received // durable only
	move  keySet                           // in the log, not yet in the copy
	ready keySet                           // in the copy (volatile: in the log), not yet taken in by the reader
	past  []engine.Received                // delivered before: may come again
	at    uint64                           // the last place given

	crossed, rows int // messages that went over the wire, and how many of them were rows
}

func newHalf(k linkKind, epoch string) *half {
	return &half{kind: k, epoch: epoch, log: map[resource.Key]engine.Received{}, copy: map[resource.Key]engine.Received{}, move: keySet{}, ready: keySet{}}
}

func (h *half) put(m engine.Message) {
	h.at++
	h.log[m.Key] = engine.Received{At: h.at, Message: m}
	if h.kind == durable {
		h.move[m.Key] = true
	} else {
		h.ready[m.Key] = true
	}
}

// opened returns what a writer finds in its log.
func (h *half) opened(revision uint64) engine.Opened {
	ev := engine.Opened{Epoch: h.epoch, Holds: map[resource.Key]engine.Held{}, Keeps: h.kind == durable, Revision: revision}
	for k, m := range h.log {
		if d := m.Message.Body.Digest(); d != "" {
			held := engine.Held{Digest: d}
			switch b := m.Message.Body.(type) {
			case engine.Record:
				held.UID, held.After = b.UID, b.After
			case engine.Manifest:
				ev.Manifest = &b
			case engine.Fuse:
				ev.Fuse = &b
			}
			ev.Holds[k] = held
		}
	}
	return ev
}

func (h *half) cross(k resource.Key) {
	h.crossed++
	if !engine.Reserved(k) {
		h.rows++
	}
}

// carry moves one message from the log to the copy.
func (h *half) carry(r *rand.Rand) {
	k := h.move.pick(r)
	delete(h.move, k)
	h.at++
	h.copy[k] = engine.Received{At: h.at, Message: h.log[k].Message}
	h.ready[k] = true
	h.cross(k)
}

// next returns a message for the reader: a new one, one again, or a stale one.
func (h *half) next(r *rand.Rand, faulty, up bool) (engine.Received, bool) {
	if faulty && len(h.past) > 0 && r.IntN(10) == 0 {
		return h.past[r.IntN(len(h.past))], true
	}
	if len(h.ready) == 0 || h.kind == volatile && !up {
		return engine.Received{}, false
	}
	k := h.ready.pick(r)
	from := h.log
	if h.kind == durable {
		from = h.copy
	}
	m := from[k]
	if !faulty || r.IntN(8) > 0 {
		delete(h.ready, k)
		if h.kind == volatile {
			delete(h.log, k)
			h.cross(k)
		}
	}
	h.past = append(h.past, m)
	if len(h.past) > 8 {
		h.past = h.past[1:]
	}
	return m, true
}

func (h *half) loseLog(epoch string) {
	h.log, h.epoch, h.move = map[resource.Key]engine.Received{}, epoch, keySet{}
	if h.kind == volatile {
		h.ready, h.past = keySet{}, nil
	}
}

func (h *half) loseCopy() {
	h.copy, h.ready, h.past = map[resource.Key]engine.Received{}, keySet{}, nil
	for k := range h.log {
		h.move[k] = true
	}
}

// age forgets some tombstones, in the log and in the copy.
func (h *half) age(r *rand.Rand) {
	if h.kind == volatile {
		return
	}
	forget := func(from map[resource.Key]engine.Received, pending keySet) {
		for _, k := range sortedKeys(from) {
			if _, dead := from[k].Message.Body.(engine.Tombstone); dead && r.IntN(2) == 0 {
				delete(from, k)
				delete(pending, k)
			}
		}
	}
	forget(h.log, h.move)
	forget(h.copy, h.ready)
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[resource.Key]V) []resource.Key {
	keys := make([]resource.Key, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, resource.Key.Compare)
	return keys
}
