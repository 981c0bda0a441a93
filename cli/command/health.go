package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// A health serves what a kubelet asks of a program:
//
//	/livez   200: the process answers; nothing that a restart would not mend makes it fail
//	/readyz  200, or 503 and why it is not ready
//
// A peer that is away is no reason for either.
type health struct {
	address string // to listen on; "" is not at all
	ready   func() error
}

// Run serves until ctx is done, and returns its cause, or fails.
func (h health) Run(ctx context.Context) error {
	if h.address == "" {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", h.address)
	if err != nil {
		return fmt.Errorf("command: serve health: %w; choose another --healthz-port", err)
	}
	s := &http.Server{Handler: h.handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { s.Close() }) // probes can be cut short
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("command: serve health: %w", err)
	}
	return context.Cause(ctx)
}

func (h health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := h.ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}
