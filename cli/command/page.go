package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// A page is what a program shows over HTTP on a port of its own, for machines to look at.
type page struct {
	flag    string // that says the port
	address string // to listen on; "" is not at all
	handler http.Handler
}

// Run serves until ctx is done, and returns its cause, or fails.
func (p page) Run(ctx context.Context) error {
	if p.address == "" {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", p.address)
	if err != nil {
		return fmt.Errorf("command: serve --%s: %w; choose another --%s", p.flag, err, p.flag)
	}
	s := &http.Server{Handler: p.handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { s.Close() }) // who looks again and again can be cut short
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("command: serve --%s: %w", p.flag, err)
	}
	return context.Cause(ctx)
}
