package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A Server serves metrics under /metrics.
type Server struct {
	Address string // to listen on; "" is not at all
	Source  Source
}

// Run serves until ctx is done, and returns its cause, or fails.
func (s Server) Run(ctx context.Context) error {
	if s.Address == "" {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("metrics: %w; choose another --metrics-port", err)
	}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { server.Close() }) // scrapes can be cut short
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("metrics: %w", err)
	}
	return context.Cause(ctx)
}

func (s Server) handler() http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(NewCollector(s.Source), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second}))
	return mux
}
