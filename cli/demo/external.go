package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/natskeys"
	"github.com/argocd-fabric/argocd-agent/cli/natsservers"
	"github.com/argocd-fabric/argocd-agent/cli/throwaway"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
	"github.com/argocd-fabric/argocd-agent/transport/natslink"
)

// servers is how many NATS servers are started that are none of the principal's.
const servers = 3

// natsExternalEnds are those of agents in a mode, where the principal uses a cluster of NATS servers.
func natsExternalEnds(mode ends, port func(natsservers.Place) int) ends {
	return ends{
		fmt.Sprintf("beside a cluster of %d NATS servers", servers), mode.agentIs,
		func(w *world, own *identity.Credentials, log *zap.Logger) (listener, error) {
			h, err := newExternalHub(w, own, log)
			if err != nil {
				return nil, err
			}
			h.address = natsservers.Addr(port(h.places[0]))
			return h, nil
		},
		mode.dialer,
	}
}

func leafPort(p natsservers.Place) int   { return p.Leaf }
func clientPort(p natsservers.Place) int { return p.Client }

// An externalHub is a hub over NATS with the servers that it uses.
type externalHub struct {
	*natslink.Hub
	places  []natsservers.Place
	paths   []string // of the servers' configurations
	address string
}

func newExternalHub(w *world, own *identity.Credentials, log *zap.Logger) (*externalHub, error) {
	keys, err := serverKeys(w.pki())
	if err != nil {
		return nil, err
	}
	client, err := identity.Files{
		CA: throwaway.Files(w.pki(), throwaway.Principal).CA, Cert: filepath.Join(w.pki(), natskeys.Cert), Key: filepath.Join(w.pki(), natskeys.Key),
	}.Credentials(time.Now())
	if err != nil {
		return nil, err
	}
	h := &externalHub{}
	if h.places, err = natsservers.Free(filepath.Join(w.dir, "servers"), servers); err != nil {
		return nil, err
	}
	if h.paths, err = natsservers.Write(keys, h.places...); err != nil {
		return nil, err
	}
	to := natslink.ClusterConfig{Credentials: client, User: string(keys.Principal[natskeys.User]), Issuer: string(keys.Principal[natskeys.Issuer]), Replicas: servers}
	for _, p := range h.places {
		to.URLs = append(to.URLs, p.URL())
	}
	common := w.natsCommon("principal", log)
	common.StoreDir = ""
	h.Hub, err = natslink.NewHub(natslink.HubConfig{Common: common, Cluster: &to, Credentials: own, Authenticate: identity.SubjectName})
	return h, err
}

// serverKeys makes the keys of servers and principal with the CA in a folder, and puts there those of
// the principal's that are read as files.
func serverKeys(dir string) (natskeys.Set, error) {
	fail := func(err error) (natskeys.Set, error) { return natskeys.Set{}, fmt.Errorf("demo: make keys: %w", err) }
	files := throwaway.Files(dir, "ca")
	cert, err := os.ReadFile(files.Cert)
	if err != nil {
		return fail(err)
	}
	key, err := os.ReadFile(files.Key)
	if err != nil {
		return fail(err)
	}
	ca, err := pki.LoadCA(pki.Pair{Cert: cert, Key: key})
	if err != nil {
		return fail(err)
	}
	keys, err := natskeys.Complete(natskeys.Set{}, natskeys.Request{CA: ca, Hosts: []string{"127.0.0.1"}, Options: pki.Options{Now: time.Now(), Lifetime: 24 * time.Hour}})
	for _, name := range []string{natskeys.Cert, natskeys.Key} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), keys.Principal[name], 0o600)
		}
	}
	if err != nil {
		return fail(err)
	}
	return keys, nil
}

// Run implements transport.Hub. The servers end after the hub.
func (h *externalHub) Run(ctx context.Context) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- natsservers.Run(serving, h.paths, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		return err
	}
	err := h.Hub.Run(ctx)
	stop()
	if failed := <-ended; !errors.Is(failed, context.Canceled) {
		err = errors.Join(err, failed)
	}
	return err
}

// Addr implements listener.
func (h *externalHub) Addr(ctx context.Context) (string, error) {
	_, err := h.Hub.Addr(ctx) // it serves
	return h.address, err
}

var _ transport.Hub = (*externalHub)(nil)
