package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
	"github.com/argocd-fabric/argocd-agent/cli/throwaway"
	"github.com/argocd-fabric/argocd-agent/proxy/kubeapi"
)

// A LiveRun is what one run has measured of live requests: what the way through principal and
// agent adds to a request of an API server, how fast a log is followed, and how soon a terminal
// shows what is typed. The API server is in the agent's process, who asks in the principal's.
type LiveRun struct {
	Direct  Latency `json:"direct"`
	Proxied Latency `json:"proxied"`
	Rate    float64 `json:"rate"` // MB a second
	Echo    Latency `json:"echo"`
	// Slow is by how much memory of both processes has grown while a log was followed that was
	// hardly read, in bytes.
	Slow float64 `json:"slow"`
}

// liveGauges are what live requests are measured by.
func liveGauges() []gauge[LiveRun] {
	return []gauge[LiveRun]{
		{name: "GET of 2 KiB, direct, p50, ms", of: func(r LiveRun) float64 { return r.Direct.P50 }},
		{name: "GET of 2 KiB, direct, p99, ms", of: func(r LiveRun) float64 { return r.Direct.P99 }},
		{name: "GET of 2 KiB, proxied, p50, ms", of: func(r LiveRun) float64 { return r.Proxied.P50 }},
		{name: "GET of 2 KiB, proxied, p99, ms", of: func(r LiveRun) float64 { return r.Proxied.P99 }},
		{name: "added to a GET, p99, ms", of: func(r LiveRun) float64 { return r.Proxied.P99 - r.Direct.P99 }, goal: limit(10)},
		{name: "log followed, MB/s", of: func(r LiveRun) float64 { return r.Rate }, worse: less, goal: limit(50)},
		{name: "memory for a log that is hardly read, MiB", of: func(r LiveRun) float64 { return r.Slow / mib }, goal: limit(8)},
		{name: "echo of a terminal, p50, ms", of: func(r LiveRun) float64 { return r.Echo.P50 }},
		{name: "echo of a terminal, p99, ms", of: func(r LiveRun) float64 { return r.Echo.P99 }, goal: limit(15)},
	}
}

// measureLive reads an object directly and by the principal in turn, follows a log, and types.
func measureLive(ctx context.Context, s Settings) (Report, error) {
	return repeat(s, liveGauges(), func(s Settings) (LiveRun, error) {
		return in(ctx, s, fleet.Order{Live: true}, (*world).live)
	})
}

func (w *world) live() (r LiveRun, err error) {
	address, err := w.serveAPI()
	if err != nil {
		return r, err
	}
	shown, err := throwaway.Files(w.dir, fleet.Name(0)).Credentials(time.Now())
	if err != nil {
		return r, err
	}
	to := &http.Transport{TLSClientConfig: shown.Client("127.0.0.1"), ForceAttemptHTTP2: true, DisableCompression: true}
	defer to.CloseIdleConnections()
	a := asker{ctx: w.ctx, client: &http.Client{Transport: to}}
	around := "https://" + address
	err = w.until("the agent to serve", func() (bool, error) {
		_, err := a.get(around)
		return err == nil, nil
	})
	if err != nil {
		return r, err
	}
	if r.Direct, r.Proxied, err = a.compare(w.Requests, w.server, around); err != nil {
		return r, err
	}
	if r.Rate, err = a.follow(around+fleet.LogPath, w.Duration); err != nil {
		return r, err
	}
	if r.Slow, err = w.dawdle(a, around+fleet.LogPath); err != nil {
		return r, err
	}
	r.Echo, err = a.echo(address, shown.Client("127.0.0.1"), w.Requests)
	return r, err
}

// serveAPI serves the agent's API by the principal, and returns where.
func (w *world) serveAPI() (address string, err error) {
	own, err := throwaway.Files(w.dir, throwaway.Principal).Credentials(time.Now())
	if err != nil {
		return "", err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	hub, err := kubeapi.NewHub(kubeapi.HubConfig{
		Listen: l.Addr().String(), TLS: own.VisitorServer(), Open: w.principal.Open, Log: w.Log,
		Name: func(*http.Request, time.Time) (string, error) { return fleet.Name(0), nil },
	})
	if err != nil {
		return "", errors.Join(err, l.Close())
	}
	w.parts.Go(func() error { return hub.Serve(w.ctx, l) })
	return l.Addr().String(), nil
}

// dawdle follows a log of which it reads a little, and returns by how much memory has grown.
func (w *world) dawdle(a asker, url string) (grown float64, err error) {
	before, err := w.resident()
	if err != nil {
		return 0, err
	}
	body, err := a.open(url)
	if err != nil {
		return 0, err
	}
	defer body.Close() // it has no end
	piece := make([]byte, 4<<10)
	for range 20 {
		if _, err := body.Read(piece); err != nil {
			return 0, fmt.Errorf("follow a log slowly: %w", err)
		}
		if err := w.pause(w.Duration / 20); err != nil {
			return 0, err
		}
	}
	after, err := w.resident()
	return max(after-before, 0), err
}

// resident returns what both processes take of memory that no file backs.
func (w *world) resident() (float64, error) {
	l, err := w.look(0)
	return float64(l.Principal.Own + l.Agent.Own), err
}
