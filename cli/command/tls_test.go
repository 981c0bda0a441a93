package command

import (
	"context"
	"errors"
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/throwaway"
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

func inFiles(k identity.Kept) identity.Source { return k.Read }

func TestCertificatesComeFromFilesOrSecrets(t *testing.T) {
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
	for _, ca := range []string{"hub", "spoke", "both"} {
		kept, err := principalTLS().kept(given(t, map[string]string{"tls-secret-name": "pair", "tls-ca-secret-name": ca}), get)
		require.NoError(t, err)
		b, err := kept.Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"cert", "key", "ca"}, []string{string(b.Cert.PEM), string(b.Key.PEM), string(b.CA.PEM)})
		require.Equal(t, "Secret pair, tls.key", b.Key.Where)
	}

	dir := t.TempDir()
	require.NoError(t, throwaway.Issue(dir, "edge-1"))
	files := throwaway.Files(dir, "edge-1")
	own, err := agentTLS().open(given(t, map[string]string{
		"tls-client-cert": files.Cert, "tls-client-key": files.Key, "root-ca-path": files.CA, "tls-secret-name": "pair",
	}), get, inFiles, zap.NewNop())
	require.NoError(t, err)
	require.Equal(t, "edge-1", own.Credentials.Name())
	again, err := own.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, files.Cert, again.Cert.Where)

	for want, flags := range map[string]map[string]string{
		"only one of them is given":                       {"tls-client-cert": "a"},
		"no Secret missing":                               {"tls-secret-name": "missing"},
		`Secret empty has no tls.crt, but ["t`:            {"tls-secret-name": "empty"},
		"no Secret other":                                 {"tls-secret-name": "pair", "root-ca-secret-name": "other"},
		"read CA: Secret spoke, ca.crt holds no PEM cert": {"tls-secret-name": "pair", "root-ca-secret-name": "spoke"},
	} {
		_, err := agentTLS().open(given(t, flags), get, inFiles, zap.NewNop())
		require.ErrorContains(t, err, want)
	}
}
