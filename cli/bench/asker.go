package bench

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
)

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

// compare reads from two places in turn.
func (a asker) compare(n int, one, other string) (ofOne, ofOther Latency, err error) {
	var all [2][]int64
	for i := range 2 * n {
		took, err := a.get([]string{one, other}[i%2])
		if err != nil {
			return ofOne, ofOther, err
		}
		all[i%2] = append(all[i%2], int64(took))
	}
	return latencyOf(all[0]), latencyOf(all[1]), nil
}

// echo types so many keys into a terminal, each once the one before is shown.
func (a asker) echo(address string, by *tls.Config, n int) (l Latency, err error) {
	by = by.Clone()
	by.NextProtos = []string{"http/1.1"} // HTTP/2 has no upgrades
	c, err := (&tls.Dialer{Config: by}).DialContext(a.ctx, "tcp", address)
	if err != nil {
		return l, err
	}
	defer c.Close()
	stop := context.AfterFunc(a.ctx, func() { c.Close() })
	defer stop()
	r, err := http.NewRequestWithContext(a.ctx, http.MethodPost, "https://"+address+fleet.EchoPath, nil)
	if err != nil {
		return l, err
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", fleet.EchoProtocol)
	if err := r.Write(c); err != nil {
		return l, err
	}
	in := bufio.NewReader(c)
	answer, err := http.ReadResponse(in, r)
	if err != nil {
		return l, err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return l, errors.Join(fmt.Errorf("a terminal is answered by %s", answer.Status), answer.Body.Close())
	}
	var all []int64
	for range n {
		began := time.Now()
		if _, err := c.Write([]byte{'a'}); err != nil {
			return l, err
		}
		if _, err := in.ReadByte(); err != nil {
			return l, err
		}
		all = append(all, int64(time.Since(began)))
	}
	return latencyOf(all), nil
}
