package kubeapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// What a request's head may take.
const (
	headTime = 15 * time.Second
	headSize = 64 << 10
)

// serve has a server serve on a listener until ctx is done, and returns its cause, or until the
// listener fails. It returns once all requests have ended, whose contexts end with ctx.
func serve(ctx context.Context, s *http.Server, l net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	answering := &shift{handler: s.Handler}
	s.Handler, s.ReadHeaderTimeout, s.MaxHeaderBytes = answering, headTime, headSize
	s.DisableGeneralOptionsHandler = true // it answers where nobody has asked who it is
	s.BaseContext = func(net.Listener) context.Context { return ctx }
	closing := context.AfterFunc(ctx, func() { _ = s.Close() /* what was upgraded ends by its context */ })
	defer closing()
	over := s.Serve
	if s.TLSConfig != nil {
		over = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
	}
	err := over(l)
	stop()
	answering.end()
	if errors.Is(err, http.ErrServerClosed) {
		return context.Cause(ctx)
	}
	return err
}

// A shift hands on requests until it has ended, and knows when the last has been answered.
// The library does not wait for those whose connection it has closed.
type shift struct {
	handler http.Handler

	mu      sync.Mutex
	over    bool
	running sync.WaitGroup
}

// ServeHTTP implements http.Handler.
func (s *shift) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.begin() {
		panic(http.ErrAbortHandler)
	}
	defer s.running.Done()
	s.handler.ServeHTTP(w, r)
}

func (s *shift) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.running.Add(1)
	}
	return !s.over
}

// end has no other request begin, and waits for those that have.
func (s *shift) end() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.running.Wait()
}
