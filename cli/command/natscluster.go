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
		f.String("nats-callout-seed", "", "", "with --nats-url: a `file` with the seed (SA...) of the issuer in the servers' auth_callout; in operator mode of a signing key of the account of --nats-creds"),
		f.String("nats-callout-xkey", "", "", "with --nats-url: a `file` with the seed (SX...) of the xkey to which the servers encrypt what they ask; empty is that they do not"),
		f.String("nats-creds", "", "", "with --nats-url, for servers in operator mode: a `file` with JWT and seed (.creds) of the principal's user in the account that has the streams"),
		f.String("nats-system-creds", "", "", "with --nats-creds: a `file` with those of a user in the system account"),
		f.String("nats-agents-seed", "", "", "with --nats-creds: a `file` with the seed (SA...) of a signing key of the account that agents are in; empty is that of --nats-callout-seed"),
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
	all := map[string]string{"nats-nkey": "", "nats-callout-seed": "", "nats-callout-xkey": "", "nats-tls-cert": "", "nats-tls-key": "", "nats-tls-ca": "", "nats-replicas": "1"}
	for _, flag := range natsOperatorOnly() {
		all[flag] = ""
	}
	return all
}

// natsOperatorOnly are the flags for servers in operator mode.
func natsOperatorOnly() []string {
	return []string{"nats-creds", "nats-system-creds", "nats-agents-seed"}
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
	to := &natslink.ClusterConfig{URLs: shell.List(text), Replicas: c.Int("nats-replicas")}
	secure := slices.ContainsFunc(to.URLs, func(one string) bool { return strings.HasPrefix(one, "tls://") })
	if err := natsKeys(c, to); err != nil {
		return nil, err
	}
	if secure {
		own, err := natsClusterTLS(c, log)
		if err != nil {
			return nil, err
		}
		to.Credentials, to.Renew = own.Credentials, own.Run
	} else if to.User == "" && to.Operator == nil {
		return nil, &shell.UsageError{Where: "--nats-nkey", What: "without TLS the servers cannot know the principal by a certificate", Advice: "name the file with the seed of its user"}
	}
	if err := to.Check(); err != nil {
		return nil, &shell.UsageError{Where: "--" + natsURL, What: err.Error(), Advice: "write tls://host:4222; more than one with commas between"}
	}
	return to, nil
}

// natsKeys sets by which keys the servers and the principal know each other.
func natsKeys(c *cli.Context, to *natslink.ClusterConfig) (err error) {
	if to.Issuer, err = seedOf(c, "nats-callout-seed", natslink.IssuerSeed); err != nil {
		return err
	}
	if c.String("nats-callout-xkey") != "" {
		if to.XKey, err = seedOf(c, "nats-callout-xkey", natslink.XKeySeed); err != nil {
			return err
		}
	}
	switch {
	case c.String("nats-creds") != "":
		to.Operator, err = natsOperator(c)
	case c.String("nats-nkey") != "":
		to.User, err = seedOf(c, "nats-nkey", natslink.UserSeed)
	}
	for _, flag := range natsOperatorOnly() {
		if err == nil && to.Operator == nil && c.String(flag) != "" {
			return &shell.UsageError{Where: "--" + flag, What: "it is for servers in operator mode, which know the principal by --nats-creds", Advice: "name that, too, or leave it out"}
		}
	}
	return err
}

// natsOperator returns by what servers in operator mode know the principal.
func natsOperator(c *cli.Context) (o *natslink.OperatorConfig, err error) {
	if c.String("nats-nkey") != "" {
		return nil, &shell.UsageError{Where: "--nats-nkey", What: "with --nats-creds the servers know the principal by its JWT", Advice: "leave it out"}
	}
	o = &natslink.OperatorConfig{}
	if o.User, err = natsCredsOf(c, "nats-creds"); err != nil {
		return nil, err
	}
	if o.System, err = natsCredsOf(c, "nats-system-creds"); err != nil {
		return nil, err
	}
	if c.String("nats-agents-seed") != "" {
		o.Agents, err = seedOf(c, "nats-agents-seed", natslink.IssuerSeed)
	}
	return o, err
}

// natsCredsOf returns what reads the creds in a file that a flag names, in which there are some now.
func natsCredsOf(c *cli.Context, flag string) (func() (natslink.Creds, error), error) {
	file := c.String(flag)
	read := func() (natslink.Creds, error) {
		text, err := os.ReadFile(file)
		if err != nil {
			return natslink.Creds{}, err
		}
		creds, err := natslink.ParseCreds(text, time.Now())
		if err != nil {
			return creds, fmt.Errorf("%s: %w", file, err)
		}
		return creds, nil
	}
	_, err := read()
	if file == "" {
		err = errors.New("it is needed with --nats-creds")
	}
	if err != nil {
		return nil, &shell.UsageError{Where: "--" + flag, What: err.Error(), Advice: "name a .creds file of the user, as nsc generate creds and argocd-agentctl nats init --operator write it"}
	}
	return read, nil
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
