package command

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend/natsstore"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// natsBackendFlags are those by which a bucket of objects is reached.
func natsBackendFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.List("backend-nats-url", "", "", "with --backend nats: the `URLs`, with commas between, of the NATS servers that have this side's objects, such as nats://nats:4222; they are none of --transport's"),
		f.String("backend-nats-bucket", "", "argocd-agent", "with --backend nats: the `name` of the key-value bucket that has the objects, which is made if there is none; the principal and each agent have one of their own"),
		f.String("backend-nats-creds", "", "", "with --backend nats: a `file` with JWT and key, as nsc writes it"),
		f.String("backend-nats-ca", "", "", "with --backend nats: a `file` with the CA of the servers' certificates; empty is the system's"),
		f.String("backend-nats-cert", "", "", "with --backend nats: a `file` with a certificate to show to the servers"),
		f.String("backend-nats-key", "", "", "with --backend nats: a `file` with its key"),
	}
}

// openNATS keeps objects in a bucket of a NATS server.
func openNATS(c *cli.Context, s resource.Side, log *zap.Logger) (k cluster, err error) {
	const where = "--backend nats"
	if s == resource.Principal && c.String("agents-file") == "" {
		return k, noClusterSecrets(where)
	}
	k.secrets = noSecrets(where)
	cfg := natsstore.Config{Owner: "the principal", Credentials: c.String("backend-nats-creds"), Log: log}
	if cfg.URL, err = natsURLs(c, "backend-nats-url"); err != nil {
		return k, err
	}
	if cfg.Bucket = c.String("backend-nats-bucket"); !regexp.MustCompile(`^[a-zA-Z0-9_-]+$`).MatchString(cfg.Bucket) {
		return k, &shell.UsageError{Where: "--backend-nats-bucket", What: fmt.Sprintf("%q is no name of a bucket", cfg.Bucket), Advice: "use letters, digits, - and _"}
	}
	if cfg.TLS, err = natsBackendTLS(c); err != nil {
		return k, err
	}
	if cfg.Credentials != "" {
		if _, err := os.Stat(cfg.Credentials); err != nil {
			return k, &shell.UsageError{Where: "--backend-nats-creds", What: err.Error(), Advice: "name a readable file"}
		}
	}
	if s == resource.Agent {
		name, err := certifiedName(c)
		if err != nil {
			return k, err
		}
		cfg.Owner = "agent " + name
	}
	store, err := natsstore.New(cfg)
	if err != nil {
		return k, err
	}
	k.store, k.remote, k.run, k.identity = store, store, store.Run, store.Identity
	k.waiting, k.answers = "waiting for the NATS servers at "+plainURLs(cfg.URL), store.Answers
	k.keep = keepFile(stateDir(c), log)
	return k, nil
}

// natsURLs returns the value of a flag that is a list of URLs.
func natsURLs(c *cli.Context, flag string) (string, error) {
	const advice = "write nats://host:4222, or tls://host:4222; more than one with commas between"
	text, err := shell.Needed(c, flag, advice)
	if err != nil {
		return "", err
	}
	for one := range strings.SplitSeq(text, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.Hostname() == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			one = one[strings.LastIndex(one, "@")+1:] // before it may be a password
			return "", &shell.UsageError{Where: "--" + flag, What: fmt.Sprintf("%q is no URL of a NATS server", one), Advice: advice}
		}
	}
	return text, nil
}

// plainURLs returns a list of URLs as natsURLs has found them, without what proves who asks.
func plainURLs(list string) string {
	var plain []string
	for one := range strings.SplitSeq(list, ",") {
		if u, err := url.Parse(strings.TrimSpace(one)); err == nil {
			plain = append(plain, u.Scheme+"://"+u.Host)
		}
	}
	return strings.Join(plain, ", ")
}

// natsBackendTLS returns how connections are secured; nil if flags say nothing of it.
func natsBackendTLS(c *cli.Context) (*tls.Config, error) {
	ca, cert, key := c.String("backend-nats-ca"), c.String("backend-nats-cert"), c.String("backend-nats-key")
	if ca == "" && cert == "" && key == "" {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if (cert == "") != (key == "") {
		return nil, &shell.UsageError{Where: "--backend-nats-cert, --backend-nats-key", What: "only one of them is given", Advice: "give both, or none"}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, &shell.UsageError{Where: "--backend-nats-cert, --backend-nats-key", What: err.Error(), Advice: "name the PEM files of a certificate and of its key"}
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		cfg.RootCAs = x509.NewCertPool()
		if err == nil && !cfg.RootCAs.AppendCertsFromPEM(pem) {
			err = fmt.Errorf("%s holds no PEM certificate", ca)
		}
		if err != nil {
			return nil, &shell.UsageError{Where: "--backend-nats-ca", What: err.Error(), Advice: "name a PEM file with certificates"}
		}
	}
	return cfg, nil
}

// certifiedName returns the name that an agent has by its certificate or login, which is in a file.
func certifiedName(c *cli.Context) (string, error) {
	creds, err := credsOf(c)
	if err != nil {
		return "", err
	}
	own, err := agentTLS().open(c, noSecrets("--backend nats"), creds, zap.NewNop())
	if err != nil {
		return "", err
	}
	return agentName(c, own.Credentials), nil
}
