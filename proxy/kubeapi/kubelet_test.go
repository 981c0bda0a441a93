package kubeapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// A kubelet plays one pod, as an API server has a real one do it: a program that reads its
// input to the end, says it again, complains, and exits with code 7, and a port that says what it
// hears in capitals.
type kubelet struct{}

// ServeHTTP implements http.Handler.
func (k kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/portforward"):
		k.forward(w, r)
	case websocket.IsWebSocketUpgrade(r):
		k.execWebsocket(w, r)
	default:
		k.execSPDY(w, r)
	}
}

// program is what runs. Its error is the code it exits with.
func program(in io.Reader, out, complaints io.Writer) ([]byte, error) {
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	if _, err := out.Write(text); err != nil {
		return nil, err
	}
	fmt.Fprintf(complaints, "%d bytes", len(text))
	return json.Marshal(metav1.Status{
		Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason, Message: "exit code 7",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: "7"}}},
	})
}

func (kubelet) execSPDY(w http.ResponseWriter, r *http.Request) {
	streams, conn := upgrade(w, r, []string{remotecommand.StreamProtocolV4Name})
	if conn == nil {
		return
	}
	defer conn.Close()
	open := map[string]httpstream.Stream{}
	for len(open) < 4 {
		select {
		case s := <-streams:
			open[s.Headers().Get(corev1.StreamType)] = s
		case <-conn.CloseChan():
			return
		}
	}
	code, err := program(open[corev1.StreamTypeStdin], open[corev1.StreamTypeStdout], open[corev1.StreamTypeStderr])
	if err != nil {
		return
	}
	_, _ = open[corev1.StreamTypeError].Write(code)
	for _, s := range open {
		_ = s.Close()
	}
	<-conn.CloseChan() // the caller has all
}

func upgrade(w http.ResponseWriter, r *http.Request, protocols []string) (<-chan httpstream.Stream, httpstream.Connection) {
	if _, err := httpstream.Handshake(r, w, protocols); err != nil {
		return nil, nil
	}
	streams := make(chan httpstream.Stream, 16)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	return streams, conn
}

// A channel is one of a websocket's.
type channel struct {
	conn   *websocket.Conn
	number byte
}

func (c channel) Write(p []byte) (int, error) {
	return len(p), c.conn.WriteMessage(websocket.BinaryMessage, append([]byte{c.number}, p...))
}

func (kubelet) execWebsocket(w http.ResponseWriter, r *http.Request) {
	offered := websocket.Subprotocols(r)
	if !slices.Contains(offered, remotecommand.StreamProtocolV5Name) {
		http.Error(w, "another protocol is spoken", http.StatusBadRequest)
		return
	}
	conn, err := (&websocket.Upgrader{Subprotocols: []string{remotecommand.StreamProtocolV5Name}}).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	in, typed := io.Pipe()
	go func() {
		for {
			_, m, err := conn.ReadMessage()
			switch {
			case err != nil:
				typed.CloseWithError(err)
				return
			case m[0] == remotecommand.StreamClose:
				typed.Close()
			case m[0] == remotecommand.StreamStdIn:
				_, _ = typed.Write(m[1:])
			}
		}
	}()
	code, err := program(in, channel{conn, remotecommand.StreamStdOut}, channel{conn, remotecommand.StreamStdErr})
	if err == nil {
		_, _ = channel{conn, remotecommand.StreamErr}.Write(code)
	}
	_ = conn.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
}

// forward has each connection to the port of the pod say in capitals what it hears.
func (kubelet) forward(w http.ResponseWriter, r *http.Request) {
	streams, conn := upgrade(w, r, []string{"portforward.k8s.io"})
	if conn == nil {
		return
	}
	defer conn.Close()
	for {
		select {
		case s := <-streams:
			if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				_ = s.Close() // there is none
				continue
			}
			go func() {
				text, _ := io.ReadAll(s)
				_, _ = s.Write([]byte(strings.ToUpper(string(text))))
				_ = s.Close()
			}()
		case <-conn.CloseChan():
			return
		}
	}
}
