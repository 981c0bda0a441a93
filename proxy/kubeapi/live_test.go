package kubeapi_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/argocd-fabric/argocd-agent/proxy/kubeapi"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

func read(t *testing.T, answer *http.Response) []byte {
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return body
}

// say writes one piece of an answer and has it go out.
func say(w http.ResponseWriter, piece []byte) error {
	if _, err := w.Write(piece); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// A watch that is told of each event only once the one before was seen shows that each crosses
// at once.
func TestWatchesAreLive(t *testing.T) {
	seen := make(chan struct{})
	w := newWorld(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		for i := range 5 {
			pod := corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}
			event, err := json.Marshal(map[string]any{"type": "ADDED", "object": pod})
			if err != nil || say(rw, append(event, '\n')) != nil {
				return
			}
			select {
			case <-seen:
			case <-r.Context().Done():
				return
			}
		}
	}), "a")
	events, err := w.clientset("a").CoreV1().Pods("x").Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer events.Stop()
	for i := range 5 {
		e := <-events.ResultChan()
		require.Equal(t, fmt.Sprint(i), e.Object.(*corev1.Pod).Name)
		seen <- struct{}{}
	}
	_, more := <-events.ResultChan()
	require.False(t, more, "the end crosses, too")
}

// Whoever goes, the other end hears of it.
func TestACallerWhoGoesEndsTheRequest(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		begun, ended := make(chan struct{}), make(chan struct{})
		w := newWorld(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/follow" {
				_ = say(rw, []byte("first\n"))
			}
			close(begun)
			<-r.Context().Done()
			close(ended)
		}), "a")
		for _, path := range []string{"/follow", "/silent"} {
			begun, ended = make(chan struct{}), make(chan struct{})
			ctx, leave := context.WithCancel(t.Context())
			answered := make(chan *http.Response, 1)
			go func() {
				answer, _ := w.client(http2).Do(w.request("a", http.MethodGet, path, nil).WithContext(ctx))
				answered <- answer
			}()
			<-begun
			if path == "/follow" {
				answer := <-answered
				defer answer.Body.Close()
			}
			leave()
			<-ended
		}
	})
}

// An answer that ends too soon never looks whole, whoever has gone: the API server, the agent's
// process, or the link to it.
func TestABrokenAnswerIsBroken(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		for name, gone := range map[string]func(*world, func()){
			"API server": func(_ *world, abort func()) { abort() },
			"Link":       func(w *world, _ func()) { w.network.Set("a", memlink.Weather{Line: memlink.Cut}) },
			"Agent":      func(w *world, _ func()) { w.stops["a"]() },
		} {
			t.Run(name, func(t *testing.T) {
				aborted := make(chan struct{})
				w := newWorld(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					_ = say(rw, []byte("half of it\n"))
					select {
					case <-aborted:
						panic(http.ErrAbortHandler)
					case <-r.Context().Done():
					}
				}), "a")
				answer, err := w.client(http2).Do(w.request("a", http.MethodGet, "/follow", nil))
				require.NoError(t, err)
				defer answer.Body.Close()
				lines := bufio.NewReader(answer.Body)
				line, err := lines.ReadString('\n')
				require.NoError(t, err)
				require.Equal(t, "half of it\n", line)
				start := time.Now()
				gone(w, func() { close(aborted) })
				_, err = lines.ReadString('\n')
				require.Error(t, err)
				require.NotErrorIs(t, err, io.EOF)
				require.Less(t, time.Since(start), 2*time.Second)
			})
		}
	})
}

// A reader that never reads holds up itself, and nobody else of the same agent.
func TestAReaderThatNeverReadsStallsItself(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		piece := make([]byte, 256<<10)
		w := newWorld(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			for i := 0; r.URL.Path == "/endless" || i < 64; i++ {
				if say(rw, piece) != nil {
					return
				}
			}
		}), "a")
		for range 8 {
			answer, err := w.client(http2).Do(w.request("a", http.MethodGet, "/endless", nil))
			require.NoError(t, err)
			defer answer.Body.Close()
		}
		_, body := do(t, w.client(http2), w.request("a", http.MethodGet, "/", nil))
		require.Len(t, body, 64*len(piece))
	})
}

// TestScenario07_ALiveReplyOf28MiB passes whole, by every way in which its length may be told.
func TestScenario07_ALiveReplyOf28MiB(t *testing.T) {
	big := bytes.Repeat([]byte("a live reply\xff\x00\n "), 28<<20/16)
	both(t, func(t *testing.T, http2 bool) {
		w := newWorld(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/told" {
				rw.Header().Set("Content-Length", fmt.Sprint(len(big)))
			}
			_, _ = rw.Write(big)
		}), "a")
		for _, path := range []string{"/told", "/untold"} {
			answer, body := do(t, w.client(http2), w.request("a", http.MethodGet, path, nil))
			require.Equal(t, sha256.Sum256(big), sha256.Sum256(body))
			require.Equal(t, path == "/told", answer.ContentLength == int64(len(big)))
		}
	})
}

// The other way, too, and lines of logs may be anything.
func TestBodiesAreBytes(t *testing.T) {
	line := append(bytes.Repeat([]byte{0xff, 0, 0xc3, 0x28, '\r'}, 1<<20/5), '\n')
	w := newWorld(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		require.NoError(t, http.NewResponseController(rw).EnableFullDuplex())
		_, _ = io.Copy(rw, r.Body)
	}), "a")
	both(t, func(t *testing.T, http2 bool) {
		_, body := do(t, w.client(http2), w.request("a", http.MethodPost, "/log", bytes.NewReader(line)))
		require.Equal(t, sha256.Sum256(line), sha256.Sum256(body))
	})
}

// Nothing is left of requests that have ended: goleak would see it.
func TestAThousandConnectionsInARow(t *testing.T) {
	w := newWorld(t, echo(t), "a")
	for i := range 1000 {
		client := w.client(i%2 == 0)
		answer, _ := do(t, client, w.request("a", http.MethodGet, "/version", nil))
		require.Equal(t, http.StatusTeapot, answer.StatusCode)
		client.CloseIdleConnections()
	}
	require.EqualValues(t, 1000, w.hub.Count(kubeapi.Answered))
	require.Zero(t, w.hub.UnderWay())
}
