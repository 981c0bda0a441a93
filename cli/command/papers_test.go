package command

import (
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// TestPapers holds that it is known when the certificates of those expire that were let in, and
// why others were not; and that nothing is kept of who is no agent.
func TestPapers(t *testing.T) {
	p, own := newPapers(), &identity.Credentials{}
	end := time.Unix(1_900_000_000, 0)
	prove := p.watch(func(_ *identity.Credentials, s identity.Shown) (identity.Proof, error) {
		if s.Login.User == "" {
			return identity.Proof{}, errors.New("nothing was shown")
		}
		return identity.Proof{Agent: s.Login.User, Certificates: []*x509.Certificate{{NotAfter: end}}}, nil
	})
	come := func(name string) {
		_, err := prove(own, identity.Shown{Login: identity.Login{User: name}})
		require.Equal(t, name == "", err != nil)
	}
	come("")
	come("edge-1")
	come("edge-2")
	require.Equal(t, end, p.of("edge-1"))
	require.Zero(t, p.of("edge-3"))
	met := 0
	p.met(func(transport.Stranger) { met++ })(transport.Stranger{Agent: "edge-2"})
	p.met(nil)(transport.Stranger{Agent: "edge-2"})
	require.Equal(t, 1, met)
	require.Equal(t, map[string]uint64{unproven: 1, blocked: 0, unregistered: 2}, p.refusals())
	p.keep([]string{"edge-1"})
	require.Zero(t, p.of("edge-2"))
	require.Len(t, p.expire, 1)
	for i := range maxPapers + 10 {
		p.expire[time.Duration(i).String()] = end
	}
	come("late")
	require.Zero(t, p.of("late"))
}
