package mux

// A bell wakes all who wait for it. A lock guards it.
type bell struct{ rung chan struct{} }

// wait returns what is closed when the bell is rung next.
func (b *bell) wait() <-chan struct{} {
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

func (b *bell) ring() {
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}
