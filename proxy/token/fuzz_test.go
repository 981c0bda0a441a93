package token_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/proxy/token"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// FuzzVerify: no text but those that were issued names anybody.
func FuzzVerify(f *testing.F) {
	keys := parsed(f, fresh(f, token.Ed25519))
	good, err := keys.Issue("edge-1", now)
	require.NoError(f, err)
	foreign, err := parsed(f, fresh(f, token.ECDSA)).Issue("edge-1", now)
	require.NoError(f, err)
	for _, seed := range []string{good, foreign, "", "..", "e30.e30.", good + "."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		agent, err := keys.Verify(text, now)
		if text == good {
			require.NoError(t, err)
			require.Equal(t, "edge-1", agent)
			return
		}
		require.ErrorIs(t, err, token.ErrInvalid)
		require.Empty(t, agent)
	})
}

// FuzzParseKeys: whatever is read as keys signs what it takes.
func FuzzParseKeys(f *testing.F) {
	f.Add(fresh(f, token.Ed25519))
	f.Add(fresh(f, token.ECDSA))
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := token.ParseKeys(text)
		if err != nil {
			require.Empty(t, keys)
			return
		}
		issued, err := keys.Issue("edge-1", now)
		if err != nil {
			return // a key of RSA may be no key by its numbers
		}
		agent, err := keys.Verify(issued, now)
		require.NoError(t, err)
		require.NoError(t, identity.CheckName(agent))
	})
}
