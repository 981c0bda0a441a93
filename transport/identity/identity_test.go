package identity_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
)

func TestCheckName(t *testing.T) {
	for _, name := range []string{"a", "7", "north-1", "argocd-2", "kube", strings.Repeat("x", 63)} {
		require.NoError(t, identity.CheckName(name))
	}
	for _, name := range []string{
		"", "A", "a.b", "a_b", "-a", "a-", "a b", "a*", "ä", "a\n", "default", "argocd", "kube-system", strings.Repeat("x", 64),
	} {
		require.Errorf(t, identity.CheckName(name), "%q", name)
	}
}

func TestSubjectName(t *testing.T) {
	named := func(cn string) identity.Shown {
		c := &x509.Certificate{Subject: pkix.Name{CommonName: cn}}
		return identity.Shown{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}, VerifiedChains: [][]*x509.Certificate{{c}}}}
	}
	proof, err := identity.SubjectName(nil, named("north"))
	require.NoError(t, err)
	require.Equal(t, "north", proof.Agent)

	_, err = identity.SubjectName(nil, named("kube-system"))
	require.ErrorContains(t, err, "reserved")

	unverified := named("north")
	unverified.TLS.VerifiedChains = nil
	for _, s := range []identity.Shown{unverified, {}} {
		_, err = identity.SubjectName(nil, s)
		require.ErrorContains(t, err, "no verified certificate")
	}
}

// fixture is a PKI on disk.
type fixture struct {
	dir string
	ca  *pki.CA
	now time.Time
}

func newFixture(t *testing.T) fixture {
	f := fixture{dir: t.TempDir(), now: time.Now()}
	var err error
	f.ca, err = pki.NewCA("test CA", f.options(time.Hour))
	require.NoError(t, err)
	f.write(t, "ca", f.ca.Pair())
	return f
}

func (f fixture) options(lifetime time.Duration) pki.Options {
	return pki.Options{Now: f.now, Lifetime: lifetime}
}

func (f fixture) write(t *testing.T, name string, p pki.Pair) {
	require.NoError(t, os.WriteFile(filepath.Join(f.dir, name+".crt"), p.Cert, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(f.dir, name+".key"), p.Key, 0o600))
}

func (f fixture) agent(t *testing.T, name string, lifetime time.Duration) {
	p, err := f.ca.IssueAgent(name, f.options(lifetime))
	require.NoError(t, err)
	f.write(t, name, p)
}

func (f fixture) files(name string) identity.Files {
	return identity.Files{
		CA:   filepath.Join(f.dir, "ca.crt"),
		Cert: filepath.Join(f.dir, name+".crt"),
		Key:  filepath.Join(f.dir, name+".key"),
	}
}

func TestHandshakeTellsTheAgentsName(t *testing.T) {
	f := newFixture(t)
	f.agent(t, "north", time.Hour)
	hub, err := f.ca.IssueServer("principal", []string{"localhost", "127.0.0.1"}, f.options(time.Hour))
	require.NoError(t, err)
	f.write(t, "hub", hub)

	server, err := f.files("hub").Credentials(f.now)
	require.NoError(t, err)
	client, err := f.files("north").Credentials(f.now)
	require.NoError(t, err)

	here, there := net.Pipe()
	defer func() { require.NoError(t, here.Close()) }()
	defer func() { require.NoError(t, there.Close()) }()
	failed := make(chan error, 1)
	go func() { failed <- tls.Client(there, client.Client("127.0.0.1")).Handshake() }()
	s := tls.Server(here, server.Server())
	require.NoError(t, s.Handshake())
	require.NoError(t, <-failed)
	state := s.ConnectionState()
	proof, err := identity.SubjectName(server, identity.Shown{TLS: &state})
	require.NoError(t, err)
	require.Equal(t, "north", proof.Agent)
	require.NoError(t, server.Trusts(proof, f.now))
	require.Equal(t, uint16(tls.VersionTLS13), state.Version)
}

func TestWhatIsWrongIsSaidInOneLine(t *testing.T) {
	f := newFixture(t)
	f.agent(t, "north", time.Hour)
	f.agent(t, "south", time.Minute)
	other := newFixture(t)
	require.NoError(t, os.WriteFile(filepath.Join(f.dir, "text.crt"), []byte("text"), 0o600))

	with := func(change func(*identity.Files)) identity.Files {
		files := f.files("north")
		change(&files)
		return files
	}
	late := f.now.Add(2 * time.Minute)
	for name, c := range map[string]struct {
		files identity.Files
		now   time.Time
		want  []string
	}{
		"no CA file":   {with(func(x *identity.Files) { x.CA += ".no" }), f.now, []string{"read CA", "ca.crt.no", "no such file"}},
		"CA not PEM":   {with(func(x *identity.Files) { x.CA = filepath.Join(f.dir, "text.crt") }), f.now, []string{"text.crt holds no PEM certificate"}},
		"no cert file": {with(func(x *identity.Files) { x.Cert += ".no" }), f.now, []string{"read certificate", "north.crt.no"}},
		"no key file":  {with(func(x *identity.Files) { x.Key += ".no" }), f.now, []string{"read key", "north.key.no"}},
		"other's key":  {with(func(x *identity.Files) { x.Key = f.files("south").Key }), f.now, []string{"south.key", "north.crt", "does not match"}},
		"other CA":     {with(func(x *identity.Files) { x.CA = other.files("").CA }), f.now, []string{"north.crt", `"CN=north"`, "does not belong to the CA"}},
		"expired":      {f.files("south"), late, []string{"south.crt", `"CN=south"`, "expired at " + f.now.Add(time.Minute).UTC().Format(time.RFC3339)}},
		"too early":    {f.files("north"), f.now.Add(-time.Hour), []string{"north.crt", "not valid before"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, clientErr := c.files.Client(c.now)
			_, serverErr := c.files.Credentials(c.now)
			for _, err := range []error{clientErr, serverErr} {
				require.Error(t, err)
				require.NotContains(t, err.Error(), "\n")
				for _, w := range c.want {
					require.ErrorContains(t, err, w)
				}
			}
		})
	}
}
