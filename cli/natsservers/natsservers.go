// Package natsservers runs the cluster of NATS servers that deploy/nats describes in this process,
// by its very files, on the loopback interface.
package natsservers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/argocd-fabric/argocd-agent/cli/natskeys"
	"github.com/argocd-fabric/argocd-agent/deploy"
)

// patience is how long servers may take to find each other.
const patience = 30 * time.Second

// A Place is where one server listens, on the loopback interface, and is.
type Place struct {
	Name                         string
	Dir                          string // of its configuration and its data
	Client, Leaf, Route, Monitor int    // ports; no Monitor is none
}

// Addr returns the host:port of a port.
func Addr(port int) string { return net.JoinHostPort("127.0.0.1", fmt.Sprint(port)) }

// URL is where the principal finds the server.
func (p Place) URL() string { return "tls://" + Addr(p.Client) }

// Write writes the configuration of each of the servers at places, which are a cluster if they are
// several, into its Dir, and returns the paths to start them with.
func Write(keys natskeys.Set, places ...Place) ([]string, error) {
	main, files := "server.conf", map[string][]byte{"server.conf": deploy.NATSServer(), natskeys.Accounts: deploy.NATSAccounts()}
	if len(places) > 1 {
		main = "cluster.conf"
		files[main] = deploy.NATSCluster()
	}
	for name, text := range keys.Servers {
		files[name] = text
	}
	var routes, paths []string
	for _, p := range places {
		routes = append(routes, fmt.Sprintf("%q", "nats-route://"+Addr(p.Route)))
	}
	for _, p := range places {
		files["node.conf"] = p.node()
		files["peers.conf"] = fmt.Appendf(nil, "ROUTE_LISTEN: %q\nROUTES: [ %s ]\n", Addr(p.Route), strings.Join(routes, ", "))
		if err := os.MkdirAll(p.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("natsservers: configure %s: %w", p.Name, err)
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(p.Dir, name), text, 0o600); err != nil {
				return nil, fmt.Errorf("natsservers: configure %s: %w", p.Name, err)
			}
		}
		paths = append(paths, filepath.Join(p.Dir, main))
	}
	return paths, nil
}

// node returns node.conf.
func (p Place) node() []byte {
	at := func(file string) string { return filepath.Join(p.Dir, file) }
	text := fmt.Appendf(nil, "server_name: %q\nCLIENT_LISTEN: %q\nLEAF_LISTEN: %q\nCERT: %q\nKEY: %q\nCA: %q\nDATA_DIR: %q\nDATA_MAX: 1TB\n",
		p.Name, Addr(p.Client), Addr(p.Leaf), at(natskeys.Cert), at(natskeys.Key), at(natskeys.CA), at("data"))
	if p.Monitor != 0 {
		text = fmt.Appendf(text, "http: %q\n", Addr(p.Monitor))
	}
	return text
}

// Run runs the servers of paths until ctx is done, and calls ready once they keep streams together.
func Run(ctx context.Context, paths []string, ready func()) error {
	var servers []*server.Server
	defer func() {
		for _, s := range servers {
			s.Shutdown()
		}
		for _, s := range servers {
			s.WaitForShutdown()
		}
	}()
	for _, path := range paths {
		o, err := server.ProcessConfigFile(path)
		if err != nil {
			return fmt.Errorf("natsservers: %w", err)
		}
		o.NoSigs, o.NoLog = true, true
		s, err := server.NewServer(o)
		if err != nil {
			return fmt.Errorf("natsservers: %s: %w", path, err)
		}
		servers = append(servers, s)
		s.Start()
	}
	if err := settled(ctx, servers); err != nil {
		return err
	}
	ready()
	<-ctx.Done()
	return context.Cause(ctx)
}

// settled waits until all servers are well.
func settled(ctx context.Context, servers []*server.Server) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("natsservers: they do not find each other"))
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for _, s := range servers {
		for s.Healthz(nil).Status != "ok" {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// Free returns places for n servers below a folder, on ports that nothing listens on now.
func Free(dir string, n int) ([]Place, error) {
	var places []Place
	for i := range n {
		p := Place{Name: fmt.Sprintf("nats-%d", i)}
		p.Dir = filepath.Join(dir, p.Name)
		for _, port := range []*int{&p.Client, &p.Leaf, &p.Route} {
			l, err := net.Listen("tcp", Addr(0))
			if err != nil {
				return nil, fmt.Errorf("natsservers: find a port: %w", err)
			}
			defer l.Close() // only then: all are different
			*port = l.Addr().(*net.TCPAddr).Port
		}
		places = append(places, p)
	}
	return places, nil
}
