package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/argocd-fabric/argocd-agent/cli/metrics"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/proxy"
	"github.com/argocd-fabric/argocd-agent/proxy/kubeapi"
	"github.com/argocd-fabric/argocd-agent/proxy/kubeapi/policy"
	"github.com/argocd-fabric/argocd-agent/proxy/token"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// proxyFlag has live access on either side.
const proxyFlag = "enable-resource-proxy"

// resourceProxyFlags are those by which the control plane serves the APIs of agents' clusters.
func resourceProxyFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.On(proxyFlag, "", "serve the Kubernetes APIs of agents' clusters to the control plane's Argo CD; without a certificate for it they are not, unless this is given, which then fails"),
		f.String("resource-proxy-listen", "", ":9090", "the `address` on which they are served"),
		f.String("resource-proxy-cert-path", "RESOURCE_PROXY_TLS_CERT_PATH", "", "a `file` with the certificate for it"),
		f.String("resource-proxy-key-path", "RESOURCE_PROXY_TLS_KEY_PATH", "", "a `file` with its key"),
		f.String("resource-proxy-ca-path", "RESOURCE_PROXY_TLS_CA_PATH", "", "a `file` with the CA of that certificate and of callers' client certificates"),
		f.String("resource-proxy-secret-name", "", "argocd-agent-resource-proxy-tls", "the `name` of the Secret with certificate and key, where no file is given"),
		f.String("resource-proxy-ca-secret-name", "", "argocd-agent-ca", "the `name` of the Secret with the CA, where no file is given"),
	}
}

func resourceProxyTLS() tlsFlags {
	return tlsFlags{
		cert: "resource-proxy-cert-path", key: "resource-proxy-key-path", pair: "resource-proxy-secret-name",
		ca: "resource-proxy-ca-path", caSecret: "resource-proxy-ca-secret-name",
	}
}

// A resourceProxy is what serves agents' clusters; the zero one serves none.
type resourceProxy struct {
	listen string
	own    identity.Renewal
	watch  func(context.Context) error // whom to keep out; nil is nobody
	tokens *token.Ring                 // of callers; nil if nothing is served
	lacks  error                       // why nothing is, though it was not forbidden
}

// openResourceProxy reads what a resource proxy needs beside the keys of callers' tokens.
func openResourceProxy(c *cli.Context, k cluster, tokens *token.Ring, log *zap.Logger) (p resourceProxy, err error) {
	if !c.Bool(proxyFlag) {
		return p, nil
	}
	listen := c.String("resource-proxy-listen")
	if _, _, err := net.SplitHostPort(listen); err != nil {
		return p, &shell.UsageError{Where: "--resource-proxy-listen", What: err.Error(), Advice: "write an address such as :9090"}
	}
	own, err := resourceProxyTLS().open(c, k.secrets, func(kept identity.Kept) identity.Source { return kept.Read }, log)
	if err != nil && !c.IsSet(proxyFlag) && c.String("resource-proxy-cert-path")+c.String("resource-proxy-key-path") == "" && missing(err) {
		return resourceProxy{lacks: err}, nil
	}
	if err != nil {
		return p, err
	}
	p = resourceProxy{listen: listen, own: own, tokens: tokens}
	p.watch, err = (porter{own.Credentials, k.blocked, log}).follow(c.Context)
	return p, err
}

// missing reports whether an error says that a Secret is not there, is not to be read, as under
// the rights of older versions, or that there are none.
func missing(err error) bool {
	usage := (*shell.UsageError)(nil)
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || errors.As(err, &usage)
}

// serve returns the parts that serve by streams that open opens, and what is counted of them.
func (p resourceProxy) serve(open proxy.Opener, log *zap.Logger) ([]func(context.Context) error, func() metrics.Live, error) {
	if p.lacks != nil {
		log.Info("the APIs of agents' clusters are not served: there is no certificate for it; argocd-agentctl pki issue resource-proxy makes one, for the next start", zap.NamedError("because", p.lacks))
	}
	if p.tokens == nil {
		return nil, nil, nil
	}
	callers := kubeapi.Callers{Token: p.tokens.Verify, Certificate: func(r *http.Request, at time.Time) (string, error) {
		proof, err := identity.SubjectName(p.own.Credentials, identity.Shown{TLS: r.TLS})
		if err == nil {
			err = p.own.Credentials.Trusts(proof, at)
		}
		return proof.Agent, err
	}}
	hub, err := kubeapi.NewHub(kubeapi.HubConfig{
		Listen: p.listen, TLS: p.own.Credentials.VisitorServer(), Name: callers.Name, Open: open, Log: log.Named("resource-proxy"),
	})
	if err != nil {
		return nil, nil, err
	}
	patrol := func(ctx context.Context) error { return patrol(ctx, p.own.Credentials.Changed, p.tokens, hub.Recheck) }
	serve := func(ctx context.Context) error {
		err := hub.Run(ctx)
		if ctx.Err() == nil {
			err = fmt.Errorf("command: serve --resource-proxy-listen: %w", err)
		}
		return err
	}
	return []func(context.Context) error{serve, p.own.Run, p.watch, patrol}, func() metrics.Live {
		return metrics.Live{UnderWay: hub.UnderWay(), Total: totals(hub.Count)}
	}, nil
}

// keysEvery is how often it is looked whether there are other keys of tokens.
const keysEvery = time.Second

// patrol has callers looked at anew when the certificates that are trusted are others, somebody is
// blocked, or the keys of tokens are others, until ctx is done, and returns its cause.
func patrol(ctx context.Context, changed func() <-chan struct{}, tokens interface{ Keys() token.Keys }, recheck func()) error {
	tick := time.NewTicker(keysEvery)
	defer tick.Stop()
	turned, had := changed(), fingerprints(tokens.Keys())
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-turned:
			turned = changed()
		case <-tick.C:
			now := fingerprints(tokens.Keys())
			if slices.Equal(now, had) {
				continue
			}
			had = now
		}
		recheck()
	}
}

func fingerprints(keys token.Keys) (all []string) {
	for _, k := range keys {
		all = append(all, k.Fingerprint())
	}
	return all
}

// totals returns how many requests have had each outcome.
func totals(of func(kubeapi.Outcome) uint64) map[string]uint64 {
	out := map[string]uint64{}
	for _, o := range kubeapi.Outcomes() {
		out[string(o)] = of(o)
	}
	return out
}

// spokeProxyFlags are those by which an agent has its cluster's API asked.
func spokeProxyFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.On(proxyFlag, "", "let the control plane's users see and touch what Applications manage on this cluster, see --live-allow"),
	}
}

// A spokeProxy is what serves the agent's cluster to the control plane; the zero one does not.
type spokeProxy struct{ spoke *kubeapi.Spoke }

// openSpokeProxy makes one before the agent's own API server, where there is any.
func openSpokeProxy(c *cli.Context, k cluster, terms policy.Terms, log *zap.Logger) (p spokeProxy, err error) {
	if k.rest == nil || !c.Bool(proxyFlag) {
		return p, nil
	}
	by, err := mappingOf(c)
	if err != nil {
		return p, err
	}
	log = log.Named("resource-proxy")
	guard, err := liveGuard(k.rest, c.String("namespace"), by, terms, log)
	if err != nil {
		return p, err
	}
	log.Info("the control plane may see what Applications manage on this cluster", zap.Bool("and-change-it", !terms.ReadOnly), zap.Stringer("live-allow", terms.Allow))
	p.spoke, err = kubeapi.NewSpoke(kubeapi.SpokeConfig{REST: k.rest, Guard: guard, Log: log})
	return p, err
}

// services are those that the principal may open streams for.
func (p spokeProxy) services() proxy.Services {
	if p.spoke == nil {
		return nil
	}
	return proxy.Services{kubeapi.Service: p.spoke.Serve}
}

// run is a part of the program; nil if there is nothing to serve.
func (p spokeProxy) run() func(context.Context) error {
	if p.spoke == nil {
		return nil
	}
	return p.spoke.Run
}

// counted says what is counted of it; nil if there is nothing to serve.
func (p spokeProxy) counted() func() metrics.Live {
	if p.spoke == nil {
		return nil
	}
	return func() metrics.Live {
		return metrics.Live{UnderWay: p.spoke.UnderWay(), Total: totals(p.spoke.Count)}
	}
}

// allServices returns the services of all.
func allServices(all ...proxy.Services) proxy.Services {
	out := proxy.Services{}
	for _, s := range all {
		maps.Copy(out, s)
	}
	return out
}
