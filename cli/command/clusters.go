package command

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/principal/clusterinfo"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// clusterFlags are those by which the control plane's Argo CD is shown the agents' clusters.
func clusterFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.String("redis-server-address", "", "", "the `host:port` of Argo CD's Redis, in which its cluster page is shown how the agents' clusters stand; empty is nowhere"),
		f.String("redis-password", "", "", "the `password` of Redis, better given by its environment variable"),
		f.String("redis-creds-dir-path", "", "", "a `folder` with the files auth (the password) and, if there is one, username, in place of --redis-password; read for each connection"),
		f.String("redis-compression-type", "", "gzip", "how Argo CD compresses what it keeps there: gzip or none"),
		f.Bool("redis-tls-enabled", "", "reach Redis by TLS"),
		f.String("redis-ca-path", "", "", "a `file` with the CA of its certificate; empty is the system's"),
		f.String("resource-proxy-address", "", "argocd-agent-resource-proxy:9090", "the `host:port` in agents' cluster Secrets, by which Argo CD knows their clusters"),
		f.Duration("stale-after", "", 5*time.Minute, shell.Positive, "for which `duration` an agent may be away before its cluster is shown as failed, and each of its Applications says so (condition AgentPending)"),
	}
}

// clusterView returns what shows the agents' clusters to Argo CD, nil if nothing is to.
func clusterView(c *cli.Context, log *zap.Logger) (*clusterinfo.Writer, error) {
	if _, err := shell.Choice(c, "redis-compression-type", map[string]bool{"gzip": true, "none": true}); err != nil {
		return nil, err
	}
	secured, err := redisTLS(c, "redis-ca-path")
	if err != nil {
		return nil, err
	}
	address := c.String("redis-server-address")
	if address == "" {
		return nil, nil
	}
	redis, err := clusterinfo.NewRedis(clusterinfo.RedisConfig{
		Address: address, TLS: secured, Compression: c.String("redis-compression-type"),
		Credentials: redisCredentials(c.String("redis-creds-dir-path"), "", c.String("redis-password")),
	})
	if err != nil {
		return nil, err
	}
	return clusterinfo.New(clusterinfo.Config{Cache: redis, Stale: c.Duration("stale-after"), Log: log})
}

// redisTLS returns how Redis is reached by TLS, nil if it is not. ca is the flag that names the CA.
func redisTLS(c *cli.Context, ca string) (*tls.Config, error) {
	if !c.Bool("redis-tls-enabled") {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if path := c.String(ca); path != "" {
		pem, err := os.ReadFile(path)
		if err != nil {
			return nil, &shell.UsageError{Where: "--" + ca, What: err.Error(), Advice: "name a file with certificates as PEM"}
		}
		if cfg.RootCAs = x509.NewCertPool(); !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, &shell.UsageError{Where: "--" + ca, What: "no certificate is in " + path, Advice: "name a file with certificates as PEM"}
		}
	}
	return cfg, nil
}

// redisCredentials returns what is asked for user and password of each connection.
func redisCredentials(dir, user, password string) func(context.Context) (user, password string, err error) {
	if dir == "" {
		return func(context.Context) (string, string, error) { return user, password, nil }
	}
	read := func(name string) (string, error) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		return strings.TrimSpace(string(text)), err
	}
	return func(context.Context) (string, string, error) {
		user, err := read("username")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", "", fmt.Errorf("command: credentials of Redis: %w", err)
		}
		password, err := read("auth")
		if err != nil {
			return "", "", fmt.Errorf("command: credentials of Redis: %w", err)
		}
		return user, password, nil
	}
}

// showInterval is how often Argo CD is told how the agents' clusters stand.
const showInterval = 2 * time.Second

// showClusters tells w of all agents until ctx is done, and returns its cause.
func showClusters(ctx context.Context, p *principal.Principal, w *clusterinfo.Writer, proxy string, log *zap.Logger) error {
	look := time.NewTicker(showInterval)
	defer look.Stop()
	told := newTold(p.Open, log)
	var hearing sync.WaitGroup
	defer hearing.Wait()
	shown := map[string]clusterinfo.Info{}
	for {
		there := map[string]bool{}
		agents := p.Agents()
		told.listen(ctx, agents, &hearing)
		for _, a := range agents {
			there[a.Name] = true
			cluster := told.of(a.Name)
			info := clusterinfo.Info{
				Server:    "https://" + proxy + "?agentName=" + url.QueryEscape(a.Name),
				Connected: a.Session.Connected, Since: a.Session.Since, Refused: reason(a.Session.Refusal),
				Version: cluster.Version, APIVersions: cluster.APIs, APIs: cluster.Kinds,
				Applications: int64(a.Session.Engine.Objects[resource.Application]),
			}
			if before, ok := shown[a.Name]; !ok || !same(before, info) {
				shown[a.Name] = info
				w.Set(a.Name, info)
			}
		}
		for name := range shown {
			if !there[name] {
				delete(shown, name)
				w.Forget(name)
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// reason returns what an error says, "" of none.
func reason(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func same(a, b clusterinfo.Info) bool {
	return a.Server == b.Server && a.Connected == b.Connected && a.Refused == b.Refused && a.Since.Equal(b.Since) && a.Applications == b.Applications &&
		a.Version == b.Version && a.APIs == b.APIs && slices.Equal(a.APIVersions, b.APIVersions)
}
