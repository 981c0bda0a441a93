package mux

import "sync"

// A chunk is a piece of a buffer. What a stream sends in its turn fits.
type chunk [quantum]byte

// chunks are those that no buffer uses.
var chunks = sync.Pool{New: func() any { return new(chunk) }}

// A buffer holds what has arrived and was not read. It takes two chunks more than that at
// most, however small the pieces are in which it comes.
type buffer struct {
	chunks []*chunk
	read   int // of the first chunk
	end    int // of the last chunk
	size   int
}

func (b *buffer) len() int { return b.size }

// put appends p.
func (b *buffer) put(p []byte) {
	b.size += len(p)
	for len(p) > 0 {
		if len(b.chunks) == 0 || b.end == quantum {
			b.chunks, b.end = append(b.chunks, chunks.Get().(*chunk)), 0
		}
		n := copy(b.chunks[len(b.chunks)-1][b.end:], p)
		b.end += n
		p = p[n:]
	}
}

// take moves to p what fits.
func (b *buffer) take(p []byte) int {
	taken := 0
	for len(p) > 0 && b.size > 0 {
		n := copy(p, b.chunks[0][b.read:min(quantum, b.read+b.size)])
		p = p[n:]
		taken += n
		b.read += n
		b.size -= n
		if b.read == quantum || b.size == 0 {
			chunks.Put(b.chunks[0])
			b.chunks, b.read = b.chunks[1:], 0
		}
	}
	return taken
}

// drop throws away what there is.
func (b *buffer) drop() {
	for _, c := range b.chunks {
		chunks.Put(c)
	}
	*b = buffer{}
}
