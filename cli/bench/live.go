package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/throwaway"
	"github.com/argocd-fabric/argocd-agent/proxy/kubeapi"
)

// A Live says what is measured of live requests: what the way through principal and agent adds to
// a request of an API server, and how fast a log is followed. The API server is in the agent's
// process, who asks in the principal's.
type Live struct {
	Requests int           // how many are made in a run, directly and by the principal in turn
	Log      *zap.Logger   // of the principal
	Follow   time.Duration // for how long a log is followed
	Runs     int           // how often it is measured
	Agent    []string      // the command that calls RunAgent
}

// A LiveRun is what one run has measured, in milliseconds, and in MB a second.
type LiveRun struct {
	Direct  Latency `json:"direct"`
	Proxied Latency `json:"proxied"`
	Rate    float64 `json:"rate"`
}

// A Latency is how long requests took, in milliseconds.
type Latency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// A LiveResult is what several runs have measured.
type LiveResult struct {
	Runs     []LiveRun `json:"runs"`
	Measures []Measure `json:"measures"`
	OK       bool      `json:"ok"` // it was measured: a missed goal is said, and is no failure
	Verdict  string    `json:"verdict"`
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
	}
}

// Run measures. An error says that nothing could be measured.
func (c Live) Run(ctx context.Context) (r LiveResult, err error) {
	switch {
	case c.Requests < 1, c.Follow <= 0, c.Runs < 1:
		return r, errors.New("bench: requests, follow and runs must be above zero")
	case len(c.Agent) == 0, c.Log == nil:
		return r, errors.New("bench: Agent and Log are needed")
	}
	for i := range c.Runs {
		run, err := c.once(ctx)
		if err != nil {
			return r, fmt.Errorf("bench: run %d: %w", i+1, err)
		}
		r.Runs = append(r.Runs, run)
	}
	r.Measures, r.Verdict, r.OK = judge(liveGauges(), r.Runs)
	return r, nil
}

// once makes one run.
func (c Live) once(ctx context.Context) (r LiveRun, err error) {
	dir, err := os.MkdirTemp("", "argocd-agent-bench-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	w, err := start(ctx, dir, setting{command: c.Agent, log: c.Log, order: order{Live: true}})
	if err != nil {
		return r, err
	}
	r, err = c.play(w, dir)
	return r, errors.Join(err, w.stop())
}

func (c Live) play(w *world, dir string) (r LiveRun, err error) {
	own, err := throwaway.Files(dir, throwaway.Principal).Credentials(time.Now())
	if err != nil {
		return r, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return r, err
	}
	address := l.Addr().String()
	hub, err := kubeapi.NewHub(kubeapi.HubConfig{
		Listen: address, TLS: own.VisitorServer(), Open: w.principal.Open, Log: c.Log,
		Name: func(*http.Request, time.Time) (string, error) { return agentName, nil },
	})
	if err != nil {
		return r, errors.Join(err, l.Close())
	}
	w.parts.Go(func() error { return hub.Serve(w.ctx, l) })
	shown, err := throwaway.Files(dir, agentName).Credentials(time.Now())
	if err != nil {
		return r, err
	}
	to := &http.Transport{TLSClientConfig: shown.Client("127.0.0.1"), ForceAttemptHTTP2: true, DisableCompression: true}
	defer to.CloseIdleConnections()
	a := asker{ctx: w.ctx, client: &http.Client{Transport: to}}
	direct, err := w.served(a, address)
	if err != nil {
		return r, err
	}
	var straight, around []float64
	for range c.Requests {
		for url, into := range map[string]*[]float64{direct: &straight, "https://" + address: &around} {
			took, err := a.get(url)
			if err != nil {
				return r, err
			}
			*into = append(*into, millis(int64(took)))
		}
	}
	r.Direct, r.Proxied = latency(straight), latency(around)
	r.Rate, err = a.follow("https://"+address+logPath, c.Follow)
	return r, err
}

// served waits until the agent's API server is served at an address, and returns where it is.
func (w *world) served(a asker, address string) (url string, err error) {
	late := time.After(patience)
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		if url = w.applied.server(); url != "" {
			if _, err = a.get("https://" + address); err == nil {
				return url, nil
			}
		}
		select {
		case <-look.C:
		case <-late:
			return "", fmt.Errorf("the agent does not serve within %v: %w", patience, err)
		case <-w.ctx.Done():
			return "", context.Cause(w.ctx)
		}
	}
}

// An asker asks as Argo CD does.
type asker struct {
	ctx    context.Context
	client *http.Client
}

func (a asker) open(url string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(a.ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := a.client.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s is answered by %s", url, answer.Status), answer.Body.Close())
	}
	return answer.Body, nil
}

// get returns how long it took to read an answer.
func (a asker) get(url string) (time.Duration, error) {
	start := time.Now()
	body, err := a.open(url)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, body)
	return time.Since(start), errors.Join(err, body.Close())
}

// follow reads for a while, and returns how many MB a second came.
func (a asker) follow(url string, span time.Duration) (float64, error) {
	body, err := a.open(url)
	if err != nil {
		return 0, err
	}
	defer body.Close() // it has no end
	piece, start, n := make([]byte, 64<<10), time.Now(), 0
	for time.Since(start) < span {
		read, err := body.Read(piece)
		if err != nil {
			return 0, err
		}
		n += read
	}
	return float64(n) / 1e6 / time.Since(start).Seconds(), nil
}

// latency sums up how long requests took.
func latency(took []float64) Latency {
	slices.Sort(took)
	return Latency{P50: took[len(took)/2], P99: took[len(took)*99/100]}
}
