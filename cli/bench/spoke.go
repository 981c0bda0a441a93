package bench

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/rest"

	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/cli/throwaway"
	"github.com/argocd-fabric/argocd-agent/proxy"
	"github.com/argocd-fabric/argocd-agent/proxy/kubeapi"
)

// logPath is where the API server of a measurement has a log without end.
const logPath = "/log"

// apiServer answers at once, by an object's worth of bytes.
func apiServer(w http.ResponseWriter, r *http.Request) {
	piece, flush := make([]byte, 32<<10), http.NewResponseController(w).Flush
	if r.URL.Path != logPath {
		_, _ = w.Write(piece[:2<<10])
		return
	}
	for {
		if _, err := w.Write(piece); err != nil || flush() != nil {
			return
		}
	}
}

// runLive runs an agent that serves an API server, and tells where that is.
func (o order) runLive(ctx context.Context, in io.Reader, cluster *memstore.Store, notes *json.Encoder) error {
	leaf, err := o.leaf()
	if err != nil {
		return err
	}
	files := throwaway.Files(o.Dir, throwaway.Principal) // of a server on this machine
	own, err := files.Credentials(time.Now())
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(apiServer), TLSConfig: own.VisitorServer(), ReadHeaderTimeout: patience}
	defer server.Close()
	go server.ServeTLS(l, "", "") // it ends with this
	url := "https://" + l.Addr().String()
	spoke, err := kubeapi.NewSpoke(kubeapi.SpokeConfig{
		REST:  &rest.Config{Host: url, TLSClientConfig: rest.TLSClientConfig{CAFile: files.CA}},
		Guard: func(next http.Handler) http.Handler { return next },
		Log:   zap.NewNop(),
	})
	if err != nil {
		return err
	}
	if err := notes.Encode(note{Server: url}); err != nil {
		return err
	}
	err = run(ctx, in, leaf, cluster, spoke.Run, proxy.Services{kubeapi.Service: spoke.Serve})
	return errors.Join(err, notes.Encode(note{End: &end{}}))
}
