package mux

// A buffer holds what has arrived and was not read.
type buffer struct {
	bytes []byte
	read  int // of bytes
}

func (b *buffer) len() int { return len(b.bytes) - b.read }

// put appends p.
func (b *buffer) put(p []byte) {
	if b.read > 0 && len(b.bytes)+len(p) > cap(b.bytes) {
		b.bytes = b.bytes[:copy(b.bytes, b.bytes[b.read:])]
		b.read = 0
	}
	b.bytes = append(b.bytes, p...)
}

// take moves to p what fits. A buffer that is empty gives its memory back, but for a little.
func (b *buffer) take(p []byte) int {
	n := copy(p, b.bytes[b.read:])
	b.read += n
	if b.len() == 0 {
		b.bytes, b.read = b.bytes[:0], 0
		if cap(b.bytes) > early {
			b.bytes = nil
		}
	}
	return n
}
