package transport

import "context"

// Serving says whether Run of a Hub serves: its other methods wait for that. It is for
// adapters. Begin and End are called once each.
type Serving struct{ ready, ended chan struct{} }

// NewServing returns a Serving that has not begun.
func NewServing() Serving { return Serving{make(chan struct{}), make(chan struct{})} }

// Begin says that Run serves.
func (s Serving) Begin() { close(s.ready) }

// End says that Run has returned, or is about to, whether it has served or not.
func (s Serving) End() { close(s.ended) }

// Wait waits until Run serves. It returns ErrClosed once that has ended, and the cause of ctx
// when that is done first.
func (s Serving) Wait(ctx context.Context) error {
	select {
	case <-s.ended:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	default:
	}
	select {
	case <-s.ready:
		return nil
	case <-s.ended:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
