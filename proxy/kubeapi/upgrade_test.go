package kubeapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
)

// of returns where a sub-resource of a pod is.
func (w *world) of(sub string) *url.URL {
	q := w.clientset("a").CoreV1().RESTClient().Post().Namespace("x").Resource("pods").Name("y").SubResource(sub)
	if sub == "exec" {
		q = q.VersionedParams(&corev1.PodExecOptions{Command: []string{"program"}, Stdin: true, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	}
	return q.URL()
}

// executors are the ways in which clients of Kubernetes have a program run in a pod.
var executors = map[string]func(*rest.Config, *url.URL) (remotecommand.Executor, error){
	"SPDY": func(c *rest.Config, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewSPDYExecutor(c, http.MethodPost, u)
	},
	"Websocket": func(c *rest.Config, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewWebSocketExecutor(c, http.MethodGet, u.String())
	},
}

// What is said to a program and by it crosses, the end of its input and the code it exits with
// included.
func TestExec(t *testing.T) {
	said := bytes.Repeat([]byte("said \xff\x00\n"), 100_000)
	for name, executor := range executors {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, kubelet{}, "a")
			run, err := executor(w.config("a"), w.of("exec"))
			require.NoError(t, err)
			var out, complaints bytes.Buffer
			err = run.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: bytes.NewReader(said), Stdout: &out, Stderr: &complaints})
			code := exec.CodeExitError{}
			require.True(t, errors.As(err, &code), "%v", err)
			require.Equal(t, 7, code.Code)
			require.True(t, bytes.Equal(said, out.Bytes()), "%d bytes", out.Len())
			require.Equal(t, fmt.Sprint(len(said), " bytes"), complaints.String())
		})
	}
}

// A program that waits for more ends once whoever has had it run goes, and the other way about.
func TestExecEndsOnBothSides(t *testing.T) {
	for name, executor := range executors {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{}, 1)
			w := newWorld(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				kubelet{}.ServeHTTP(rw, r)
				ended <- struct{}{}
			}), "a")
			for side, end := range map[string]func(leave func()){
				"caller": func(leave func()) { leave() },
				"agent":  func(func()) { w.stops["a"]() },
			} {
				run, err := executor(w.config("a"), w.of("exec"))
				require.NoError(t, err)
				ctx, leave := context.WithCancel(t.Context())
				in, typed := io.Pipe()
				over := make(chan error, 1)
				go func() {
					over <- run.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: io.Discard, Stderr: io.Discard})
				}()
				_, err = typed.Write([]byte("x")) // it is read once there is a program
				require.NoError(t, err)
				end(leave)
				// Clients take a connection of SPDY that ends for a program that has ended.
				err = <-over
				require.True(t, err != nil || name == "SPDY" && side == "agent", side)
				<-ended
				require.NoError(t, typed.Close())
				leave()
				if side == "agent" {
					w.start("a")
				}
			}
		})
	}
}

func TestPortForward(t *testing.T) {
	w := newWorld(t, kubelet{}, "a")
	to, upgrader, err := spdy.RoundTripperFor(w.config("a"))
	require.NoError(t, err)
	stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	f, err := portforward.NewOnAddresses(
		spdy.NewDialer(upgrader, &http.Client{Transport: to}, http.MethodPost, w.of("portforward")),
		[]string{"127.0.0.1"}, []string{"0:80"}, stop, ready, io.Discard, io.Discard)
	require.NoError(t, err)
	go func() { ended <- f.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		require.NoError(t, err)
	}
	ports, err := f.GetPorts()
	require.NoError(t, err)
	for range 3 {
		c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", ports[0].Local))
		require.NoError(t, err)
		_, err = c.Write([]byte(strings.Repeat("hello ", 50_000)))
		require.NoError(t, err)
		require.NoError(t, c.(*net.TCPConn).CloseWrite())
		answer, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Equal(t, strings.Repeat("HELLO ", 50_000), string(answer))
		require.NoError(t, c.Close())
	}
	close(stop)
	require.NoError(t, <-ended)
}
