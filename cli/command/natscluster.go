package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/check"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/natslink"
)

// natsURL is the flag that says where the servers are if the principal does not run its own.
const natsURL = "nats-url"

// natsClusterFlags are those of a principal whose NATS servers are elsewhere.
func natsClusterFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.List(natsURL, "", "", "the `URLs`, with commas between, of NATS servers that agents connect to in place of this program, such as tls://nats-0:4222; see deploy/nats"),
		f.String("nats-nkey", "", "", "with --nats-url: a `file` with the seed (SU...) of the principal's user; empty is that the servers know it by its certificate"),
		f.String("nats-callout-seed", "", "", "with --nats-url: a `file` with the seed (SA...) of the issuer in the servers' auth_callout"),
		f.String("nats-tls-cert", "", "", "with --nats-url: a `file` with the certificate that is shown to the servers, which must be a client's"),
		f.String("nats-tls-key", "", "", "with --nats-url: a `file` with its key"),
		f.String("nats-tls-ca", "", "", "with --nats-url: a `file` with the CA of the servers' certificates; empty is that of --root-ca-path"),
		f.Int("nats-replicas", "", 1, replicas, "with --nats-url: on how `many` servers each stream is: 1, 3 or 5"),
	}
}

// replicas is the shell.Check of on how many servers a stream may be.
func replicas(flag string, v int) error {
	if v != 1 && v != 3 && v != 5 {
		return &shell.UsageError{Where: "--" + flag, What: fmt.Sprintf("%d is none of 1, 3 and 5", v), Advice: "write 3 with three servers or more, and 1 with one"}
	}
	return nil
}

// natsElsewhereOnly are the flags that are of use with --nats-url only, and natsHereOnly those that
// are of none, each with its default: settings of a cluster may repeat it.
func natsElsewhereOnly() map[string]string {
	return map[string]string{"nats-nkey": "", "nats-callout-seed": "", "nats-tls-cert": "", "nats-tls-key": "", "nats-tls-ca": "", "nats-replicas": "1"}
}

func natsHereOnly() map[string]string {
	return map[string]string{
		"nats-leaf-listen": ":" + strconv.Itoa(natsPort), "nats-client-listen": "", "nats-websocket-listen": "",
		"nats-store-dir": "/var/lib/argocd-agent", "nats-max-store": "0", "nats-monitor-listen": "",
	}
}

// natsApart refuses flags of a NATS server here with one elsewhere, and the reverse.
func natsApart(c *cli.Context) error {
	unfit, what, advice := natsElsewhereOnly(), "the NATS server is this program", "leave it out, or write --nats-url"
	if c.String(natsURL) != "" {
		unfit, what, advice = natsHereOnly(), "with --nats-url there is no NATS server here", "leave it out"
	}
	for _, flag := range slices.Sorted(maps.Keys(unfit)) {
		if value := fmt.Sprint(c.Value(flag)); value != unfit[flag] {
			return &shell.UsageError{Where: "--" + flag, What: what, Advice: advice}
		}
	}
	return nil
}

// natsElsewhere returns what makes the principal's end on servers elsewhere.
func natsElsewhere(c *cli.Context, log *zap.Logger) (newHub, error) {
	common, err := natsCommon(c, "", log)
	if err != nil {
		return nil, err
	}
	to, err := natsCluster(c, log)
	if err != nil {
		return nil, err
	}
	return func(own *identity.Credentials, method identity.Method, met strangers) (transport.Hub, error) {
		if err := headed("--auth", own); err != nil {
			return nil, err
		}
		return natslink.NewHub(natslink.HubConfig{Common: common, Cluster: to, Credentials: own, Authenticate: method.Prove, Strangers: met})
	}, nil
}

// natsCluster says where the servers are, by flags.
func natsCluster(c *cli.Context, log *zap.Logger) (*natslink.ClusterConfig, error) {
	text, err := natsURLs(c, natsURL)
	if err != nil {
		return nil, err
	}
	to := &natslink.ClusterConfig{Replicas: c.Int("nats-replicas")}
	secure := false
	for one := range strings.SplitSeq(text, ",") {
		to.URLs = append(to.URLs, strings.TrimSpace(one))
		secure = secure || strings.HasPrefix(strings.TrimSpace(one), "tls://")
	}
	if to.Issuer, err = seedOf(c, "nats-callout-seed", natslink.IssuerSeed); err != nil {
		return nil, err
	}
	if c.String("nats-nkey") != "" {
		if to.User, err = seedOf(c, "nats-nkey", natslink.UserSeed); err != nil {
			return nil, err
		}
	}
	if secure {
		own, err := natsClusterTLS(c, log)
		if err != nil {
			return nil, err
		}
		to.Credentials, to.Renew = own.Credentials, own.Run
	} else if to.User == "" {
		return nil, &shell.UsageError{Where: "--nats-nkey", What: "without TLS the servers cannot know the principal by a certificate", Advice: "name the file with the seed of its user"}
	}
	if err := to.Check(); err != nil {
		return nil, &shell.UsageError{Where: "--" + natsURL, What: err.Error(), Advice: "write tls://host:4222; more than one with commas between"}
	}
	return to, nil
}

// seedOf returns the seed in a file that a flag names, as read finds it.
func seedOf(c *cli.Context, flag string, read func([]byte) (string, error)) (string, error) {
	bad := func(err error) (string, error) {
		return "", &shell.UsageError{Where: "--" + flag, What: err.Error(), Advice: "name a file with a seed; argocd-agentctl nats init makes it"}
	}
	file := c.String(flag)
	if file == "" {
		return bad(errors.New("it is needed with --" + natsURL))
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return bad(err)
	}
	seed, err := read(text)
	if err != nil {
		return bad(fmt.Errorf("%s: %w", file, err))
	}
	return seed, nil
}

// natsClusterTLS returns what the servers are met with, and what keeps it what is in the files.
func natsClusterTLS(c *cli.Context, log *zap.Logger) (identity.Renewal, error) {
	files := identity.Files{Cert: c.String("nats-tls-cert"), Key: c.String("nats-tls-key"), CA: cmp.Or(c.String("nats-tls-ca"), c.String("root-ca-path"))}
	for flag, file := range map[string]string{"nats-tls-cert": files.Cert, "nats-tls-key": files.Key, "nats-tls-ca": files.CA} {
		if file == "" {
			return identity.Renewal{}, &shell.UsageError{Where: "--" + flag, What: "it is needed with tls URLs in --" + natsURL, Advice: "name a PEM file; argocd-agentctl nats init makes them"}
		}
	}
	own, err := files.Credentials(time.Now())
	if err != nil {
		return identity.Renewal{}, &shell.UsageError{Where: "--nats-tls-cert, --nats-tls-key, --nats-tls-ca", What: err.Error(), Advice: "name PEM files of a client's certificate, its key, and the CA of the servers"}
	}
	read := func(context.Context) (identity.Bundle, error) { return files.Read() }
	return identity.Renewal{Credentials: own, Read: read, Every: renewEvery, Log: log}, nil
}

// discardElsewhere removes what servers elsewhere have kept of an earlier time.
func discardElsewhere(c *cli.Context, log *zap.Logger) error {
	to, err := natsCluster(c, log)
	if err != nil {
		return err
	}
	return natslink.DiscardElsewhere(c.Context, *to, log)
}

// servers is a stage: whether the NATS servers elsewhere are as the principal needs them.
func (p *principalCheck) servers(ctx context.Context) (string, error) {
	if p.c.String(natsURL) == "" {
		return "", check.Skipped("--nats-url is off")
	}
	to, err := natsCluster(p.c, zap.NewNop())
	if err != nil {
		return "", err
	}
	seen, err := natslink.Survey(ctx, *to)
	if err != nil {
		return "", &check.Failure{Err: err, Advice: "see deploy/nats for a configuration that works"}
	}
	return seen, nil
}
