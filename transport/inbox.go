package transport

import (
	"context"
	"sync"
)

// An Inbox holds what Receive of a Link is to return next, and brings it into the order that
// Link promises. It is for adapters, which tell it what comes, in any order, from any
// goroutine: nothing that they tell it waits for the reader.
//
// Values wait in the order in which their keys came first, with the last value of each key
// only: a reader that is behind costs memory by the key. What the reader is to know of the
// peer and of the log is a state, of which it is told the differences, before any value that
// still waits.
type Inbox struct {
	wake chan struct{} // holds one element once there may be something to receive

	mu       sync.Mutex
	closed   bool
	keys     []string // of values, each once
	values   map[string]Delivery
	size     int64 // of values, see sizeOf
	replayed replay
	first    int       // how many of keys come before Replayed
	lost     bool      // LogLost is to be given
	peer     *Presence // the process that is there; nil is none
	told     *Presence // the one that the reader believes in: the same or another
}

// A replay says how far the reader has come in what the copy held at first.
type replay uint8

const (
	replaying replay = iota // there may be more of it
	listed                  // all of it has come
	over                    // and Replayed was given
)

// NewInbox returns an Inbox with nothing in it.
func NewInbox() *Inbox {
	return &Inbox{wake: make(chan struct{}, 1), values: map[string]Delivery{}}
}

// Put has a Value received, in the place of another one of its key that was not yet, if that
// does not have a higher At. An Ack that is nil does nothing.
func (i *Inbox) Put(d Delivery) {
	i.mu.Lock()
	defer i.mu.Unlock()
	key := d.Message.Key
	waits, ok := i.values[key]
	if ok && waits.At > d.At {
		return
	}
	if !ok {
		i.keys = append(i.keys, key)
	} else {
		i.size -= sizeOf(waits)
	}
	i.values[key] = d
	i.size += sizeOf(d)
	i.signal()
}

// Size returns about how many bytes of memory the values take that wait to be received, so that
// an adapter can bound what a reader that is behind costs.
func (i *Inbox) Size() int64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.size
}

// sizeOf returns about how many bytes of memory a value takes.
func sizeOf(d Delivery) int64 {
	const attributes = 1 << 10 // and all that is of fixed size
	return int64(2*len(d.Message.Key) + len(d.Message.Event.DataEncoded) + attributes)
}

// Replayed says that all that the copy held when the Link was opened was put. It is called
// once; until then the reader is told of nothing but values.
func (i *Inbox) Replayed() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.replayed, i.first = listed, len(i.keys)
	i.signal()
}

// LogLost says that the log was lost, and begun anew.
func (i *Inbox) LogLost() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lost = true
	i.signal()
}

// There says which process of the peer is there, nil if none is. Another pointer is another
// connection: the reader is told of both, even if what they point to is the same.
func (i *Inbox) There(p *Presence) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.peer = p
	i.signal()
}

// Close has Receive return ErrClosed. What waits is thrown away.
func (i *Inbox) Close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed, i.keys, i.values, i.size = true, nil, map[string]Delivery{}, 0
	i.signal()
}

func (i *Inbox) signal() {
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// Receive returns what is next, as Link.Receive promises.
func (i *Inbox) Receive(ctx context.Context) (Delivery, error) {
	for {
		d, ok, err := i.next(ctx)
		if ok || err != nil {
			return d, err
		}
		select {
		case <-i.wake:
		case <-ctx.Done():
		}
	}
}

// next returns what is to be received now, if anything is.
func (i *Inbox) next(ctx context.Context) (d Delivery, ok bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.closed:
		return d, false, ErrClosed
	case ctx.Err() != nil:
		return d, false, context.Cause(ctx)
	}
	d.Ack = func() {}
	switch {
	case i.replayed == listed && i.first == 0:
		i.replayed = over
		d.Event = Replayed
	case i.replayed == over && i.lost:
		i.lost = false
		d.Event = LogLost
	case i.replayed == over && i.told != nil && i.told != i.peer:
		i.told = nil
		d.Event = Down
	case i.replayed == over && i.told == nil && i.peer != nil:
		i.told = i.peer
		d.Event, d.Presence = Up, *i.peer
	case len(i.keys) > 0:
		return i.value(), true, nil
	default:
		return Delivery{}, false, nil
	}
	return d, true, nil
}

// value takes out the value that has waited the longest.
func (i *Inbox) value() Delivery {
	key := i.keys[0]
	d := i.values[key]
	i.keys, i.first = i.keys[1:], max(0, i.first-1)
	delete(i.values, key)
	i.size -= sizeOf(d)
	if d.Ack == nil {
		d.Ack = func() {}
	}
	return d
}
