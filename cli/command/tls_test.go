package command

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// given returns the context of a command that was given these flags.
func given(t *testing.T, flags map[string]string) *cli.Context {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	for name, value := range flags {
		set.String(name, value, "")
	}
	c := cli.NewContext(cli.NewApp(), set, nil)
	c.Context = t.Context()
	return c
}

func TestCertificatesComeFromFilesOrSecrets(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	in := map[string]map[string][]byte{
		"pair":  {"tls.crt": []byte("cert"), "tls.key": []byte("key")},
		"hub":   {"tls.crt": []byte("ca"), "tls.key": []byte("secret")},
		"spoke": {"ca.crt": []byte("ca")},
		"both":  {"ca.crt": []byte("ca"), "tls.crt": []byte("other")},
		"empty": {"tls.crt": nil, "x": []byte("y")},
	}
	get := func(_ context.Context, name string) (map[string][]byte, error) {
		if in[name] == nil {
			return nil, errors.New("no Secret " + name)
		}
		return in[name], nil
	}
	read := func(path string) string {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(text)
	}
	for _, ca := range []string{"hub", "spoke", "both"} {
		_, err := principalTLS().load(given(t, map[string]string{"tls-secret-name": "pair", "tls-ca-secret-name": ca}), get, func(f identity.Files) (*tls.Config, error) {
			require.Equal(t, []string{"cert", "key", "ca"}, []string{read(f.Cert), read(f.Key), read(f.CA)})
			return nil, nil
		})
		require.NoError(t, err)
	}
	_, err := agentTLS().load(given(t, map[string]string{"tls-client-cert": "a", "tls-client-key": "b", "root-ca-path": "c", "tls-secret-name": "pair"}), get, func(f identity.Files) (*tls.Config, error) {
		require.Equal(t, identity.Files{Cert: "a", Key: "b", CA: "c"}, f)
		return nil, errors.New("expired")
	})
	require.EqualError(t, err, "expired")

	for want, flags := range map[string]map[string]string{
		"only one of them is given":            {"tls-client-cert": "a"},
		"no Secret missing":                    {"tls-secret-name": "missing"},
		`Secret empty has no tls.crt, but ["t`: {"tls-secret-name": "empty"},
		"no Secret other":                      {"tls-secret-name": "pair", "root-ca-secret-name": "other"},
	} {
		_, err := agentTLS().load(given(t, flags), get, func(identity.Files) (*tls.Config, error) { panic("not reached") })
		require.ErrorContains(t, err, want)
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	require.NoError(t, err)
	require.Empty(t, left, "no key stays on disk")
}
