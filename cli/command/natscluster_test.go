package command

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
)

// TestServersElsewhereThatCannotBe: flags that do not fit are refused, and what to do is said.
func TestServersElsewhereThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	const userSeed, issuerSeed = "SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTC4", "SAANDLKMXL6CUS3CP52WIXBEDN6YJ545GDKC65U5JZPPV6WH6ESWUA6YAI"
	user, issuer, empty := file("user", userSeed+"\n"), file("issuer", issuerSeed+"\n"), file("empty", "text\n")
	creds := func(life time.Duration) string {
		key, err := nkeys.FromSeed([]byte(userSeed))
		require.NoError(t, err)
		public, err := key.PublicKey()
		require.NoError(t, err)
		u := jwt.NewUserClaims(public)
		u.Expires = time.Now().Add(life).Unix()
		account, err := nkeys.FromSeed([]byte(issuerSeed))
		require.NoError(t, err)
		token, err := u.Encode(account)
		require.NoError(t, err)
		text, err := jwt.FormatUserConfig(token, []byte(userSeed))
		require.NoError(t, err)
		return file(life.String(), string(text))
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"door here":      {[]string{"--nats-url", "nats://127.0.0.1:4222", "--nats-client-listen", ":4222"}, "--nats-client-listen: with --nats-url there is no NATS server here; leave it out"},
		"store here":     {[]string{"--nats-url", "nats://127.0.0.1:4222", "--nats-store-dir", dir}, "--nats-store-dir: with --nats-url there is no NATS server here; leave it out"},
		"no url":         {[]string{"--nats-nkey", user}, "--nats-nkey: the NATS server is this program; leave it out, or write --nats-url"},
		"no issuer":      {[]string{"--nats-url", "nats://127.0.0.1:4222", "--nats-nkey", user}, "--nats-callout-seed: it is needed with --nats-url"},
		"wrong seed":     {[]string{"--nats-url", "nats://127.0.0.1:4222", "--nats-nkey", user, "--nats-callout-seed", user}, "must be one for account"},
		"no seed":        {[]string{"--nats-url", "nats://127.0.0.1:4222", "--nats-nkey", empty, "--nats-callout-seed", issuer}, "--nats-nkey: " + empty + ": natslink: find a seed"},
		"replicas":       {[]string{"--nats-url", "nats://127.0.0.1:4222", "--nats-nkey", user, "--nats-callout-seed", issuer, "--nats-replicas", "2"}, "--nats-replicas: 2 is none of 1, 3 and 5"},
		"in clear":       {[]string{"--nats-url", "nats://nats:4222", "--nats-nkey", user, "--nats-callout-seed", issuer}, "without TLS, which is for the loopback interface"},
		"no certificate": {[]string{"--nats-url", "tls://nats:4222", "--nats-nkey", user, "--nats-callout-seed", issuer, "--root-ca-path", empty, "--nats-tls-key", empty}, "--nats-tls-cert: it is needed with tls URLs in --nats-url"},
		"not a URL":      {[]string{"--nats-url", "nats", "--nats-nkey", user, "--nats-callout-seed", issuer}, "is no URL of a NATS server"},
		"no such port":   {[]string{"--nats-url", "nats://127.0.0.1:99999", "--nats-nkey", user, "--nats-callout-seed", issuer}, "127.0.0.1:99999: there is no port 99999"},
		"quota":          {[]string{"--nats-url", "nats://127.0.0.1:4222", "--nats-nkey", user, "--nats-callout-seed", issuer, "--nats-quota", "99999999999999"}, "--nats-quota: 99999999999999 MiB are more than any server has"},
		"store":          {[]string{"--nats-store-dir", dir, "--nats-max-store", "99999999999999"}, "--nats-max-store: 99999999999999 MiB are more than any server has"},
		"creds alone":    {[]string{"--nats-url", "nats://127.0.0.1:4222", "--nats-creds", creds(time.Hour), "--nats-callout-seed", issuer}, "--nats-system-creds: it is needed with --nats-creds"},
		"creds, no JWT":  {[]string{"--nats-url", "nats://127.0.0.1:4222", "--nats-creds", user, "--nats-callout-seed", issuer}, "there is no user's JWT"},
		"creds, old":     {[]string{"--nats-url", "nats://127.0.0.1:4222", "--nats-creds", creds(-time.Hour), "--nats-callout-seed", issuer}, "has expired at 20"},
		"creds and nkey": {[]string{"--nats-url", "nats://127.0.0.1:4222", "--nats-creds", creds(time.Hour), "--nats-nkey", user, "--nats-callout-seed", issuer}, "--nats-nkey: with --nats-creds the servers know the principal by its JWT; leave it out"},
		"system alone":   {[]string{"--nats-url", "nats://127.0.0.1:4222", "--nats-nkey", user, "--nats-system-creds", user, "--nats-callout-seed", issuer}, "--nats-system-creds: it is for servers in operator mode"},
		"no xkey":        {[]string{"--nats-url", "nats://127.0.0.1:4222", "--nats-nkey", user, "--nats-callout-xkey", user, "--nats-callout-seed", issuer}, "there is none of a curve key (SX...)"},
		"nobody":         {[]string{"--nats-url", "nats://127.0.0.1:4222", "--nats-callout-seed", issuer}, "--nats-nkey: without TLS the servers cannot know"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := principalCommand()
			cmd.Action = func(c *cli.Context) error {
				_, err := natsHub(c, zap.NewNop())
				return err
			}
			app := &cli.App{Commands: []*cli.Command{cmd}}
			err := app.RunContext(context.Background(), append([]string{"test", "principal"}, c.args...))
			var usage *shell.UsageError
			require.ErrorAs(t, err, &usage)
			require.ErrorContains(t, err, c.want)
		})
	}
}
