package mux

import (
	"fmt"
	"time"
)

// Bounds of what is under way, in bytes, and how long it may take on top of what the line
// itself takes. Tables share the line: what they say waits behind what is under way.
const (
	minFlight   = 256 << 10
	firstFlight = 512 << 10
	maxFlight   = 1 << 20
	patience    = 100 * time.Millisecond

	// takenEvery is after how many bytes of data the peer is told that they were taken in.
	takenEvery = minFlight / 4
)

// A flight bounds how much data is under way in a session, by how long it takes. It starts
// with what a fast line needs, and gives way where bytes queue.
type flight struct {
	sent    uint64 // bytes
	arrived uint64
	size    uint64 // how many may be under way

	// A measurement begins when as much is under way as may be. It ends when mark has
	// arrived, which needs nothing more to be sent.
	measuring bool
	mark      uint64
	since     time.Time
	fastest   time.Duration // of all measurements, 0 before the first
}

// room returns how much may be sent now.
func (f *flight) room() int {
	if under := f.sent - f.arrived; under < f.size {
		return int(f.size - under)
	}
	return 0
}

// send notes that n bytes are sent.
func (f *flight) send(n int, now time.Time) {
	f.sent += uint64(n)
	if f.room() == 0 && !f.measuring {
		f.measuring, f.mark, f.since = true, f.sent-takenEvery, now
	}
}

// arrive notes that so many bytes have arrived in all.
func (f *flight) arrive(n uint64, now time.Time) error {
	if n < f.arrived || n > f.sent {
		return fmt.Errorf("%d bytes have arrived of %d", n, f.sent)
	}
	f.arrived = n
	if f.measuring && n >= f.mark {
		f.measuring = false
		f.adapt(now.Sub(f.since))
	}
	return nil
}

// adapt takes in that a full flight took that long.
func (f *flight) adapt(took time.Duration) {
	if f.fastest == 0 || took < f.fastest {
		f.fastest = took
	}
	if took > f.fastest+patience {
		f.size = max(minFlight, f.size/2)
	} else {
		f.size = min(maxFlight, f.size+takenEvery)
	}
}
