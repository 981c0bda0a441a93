package fleet

import (
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/rest"

	"github.com/argocd-fabric/argocd-agent/cli/throwaway"
	"github.com/argocd-fabric/argocd-agent/proxy"
	"github.com/argocd-fabric/argocd-agent/proxy/kubeapi"
)

// Paths of the API server.
const (
	LogPath  = "/log"  // a log without end
	EchoPath = "/echo" // upgrades to what answers each byte by itself, as a terminal does
)

// EchoProtocol is what EchoPath upgrades to.
const EchoProtocol = "echo"

// apiServer answers at once, by an object's worth of bytes.
func apiServer(w http.ResponseWriter, r *http.Request) {
	piece, flush := make([]byte, 32<<10), http.NewResponseController(w).Flush
	switch r.URL.Path {
	case EchoPath:
		echo(w)
	case LogPath:
		for {
			if _, err := w.Write(piece); err != nil || flush() != nil {
				return
			}
		}
	default:
		_, _ = w.Write(piece[:2<<10])
	}
}

func echo(w http.ResponseWriter) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", EchoProtocol)
	w.WriteHeader(http.StatusSwitchingProtocols)
	c, b, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	key := make([]byte, 1)
	for {
		if _, err := b.Read(key); err != nil {
			return
		}
		if _, err := c.Write(key); err != nil {
			return
		}
	}
}

// serveLive serves an API server behind a member, and returns where that is.
func (f *fleet) serveLive(m *member) (url string, err error) {
	files := throwaway.Files(f.order.Dir, throwaway.Principal) // of a server on this machine
	own, err := files.Credentials(time.Now())
	if err != nil {
		return "", err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	url = "https://" + l.Addr().String()
	spoke, err := kubeapi.NewSpoke(kubeapi.SpokeConfig{
		REST:  &rest.Config{Host: url, TLSClientConfig: rest.TLSClientConfig{CAFile: files.CA}},
		Guard: func(next http.Handler) http.Handler { return next },
		Log:   zap.NewNop(),
	})
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: http.HandlerFunc(apiServer), TLSConfig: own.VisitorServer(), ReadHeaderTimeout: patience}
	go server.ServeTLS(l, "", "") // it ends with this process
	f.parts.Go(func() error { return spoke.Run(f.ctx) })
	m.services = proxy.Services{kubeapi.Service: spoke.Serve}
	return url, nil
}
