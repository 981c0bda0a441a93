package redis

import (
	"container/list"
	"sync"
	"time"
)

// A place is where something is kept: in the Redis of an agent, under a key there.
type place struct {
	agent string
	key   string
}

// kept are the last values that agents have told, as many as there is room for: those that
// were told or asked for least recently make room.
type kept struct {
	room int // for values and their keys, in bytes

	mu    sync.Mutex
	taken int
	at    map[place]*list.Element
	order list.List // of *keepsake, the most recent first
}

// A keepsake is one value, as it is on the wire.
type keepsake struct {
	place place
	value []byte
	told  time.Time
}

func (k *keepsake) size() int { return len(k.place.agent) + len(k.place.key) + len(k.value) + 200 }

func newKept(room int) *kept { return &kept{room: room, at: map[place]*list.Element{}} }

// put keeps a value in the place of the one before. One that would need more than an eighth of
// the room is not kept.
func (k *kept) put(p place, value []byte, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(p)
	s := &keepsake{p, value, now}
	if s.size() > k.room/8 {
		return
	}
	k.at[p] = k.order.PushFront(s)
	k.taken += s.size()
	for k.taken > k.room {
		k.drop(k.order.Back().Value.(*keepsake).place)
	}
}

// remove forgets a value.
func (k *kept) remove(p place) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(p)
}

func (k *kept) drop(p place) {
	e := k.at[p]
	if e == nil {
		return
	}
	k.taken -= e.Value.(*keepsake).size()
	k.order.Remove(e)
	delete(k.at, p)
}

// get returns a value and when it was told.
func (k *kept) get(p place) (value []byte, told time.Time, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.at[p]
	if e == nil {
		return nil, time.Time{}, false
	}
	k.order.MoveToFront(e)
	s := e.Value.(*keepsake)
	return s.value, s.told, true
}
