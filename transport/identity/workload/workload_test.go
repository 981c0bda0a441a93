package workload_test

import (
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
	source "github.com/argocd-fabric/argocd-agent/transport/identity/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An api serves the public protocol, with an identity that is rotated.
type api struct {
	workload.UnimplementedSpiffeWorkloadAPIServer
	now atomic.Pointer[workload.X509SVID]
}

// FetchX509SVID implements the protocol.
func (a *api) FetchX509SVID(_ *workload.X509SVIDRequest, s grpc.ServerStreamingServer[workload.X509SVIDResponse]) error {
	is := a.now.Load()
	if is == nil {
		return status.Error(codes.PermissionDenied, "no identity issued")
	}
	if err := s.Send(&workload.X509SVIDResponse{Svids: []*workload.X509SVID{is}}); err != nil {
		return err
	}
	<-s.Context().Done()
	return s.Context().Err()
}

func newAPI(t *testing.T) (a *api, socket string) {
	path := filepath.Join(t.TempDir(), "api.sock")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	s := grpc.NewServer()
	a = &api{}
	workload.RegisterSpiffeWorkloadAPIServer(s, a)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		require.NoError(t, <-ended)
	})
	return a, "unix://" + path
}

func der(text []byte) []byte {
	b, _ := pem.Decode(text)
	return b.Bytes
}

// gives has the API give a pair of a CA.
func (a *api) gives(ca *pki.CA, p pki.Pair, id string) {
	a.now.Store(&workload.X509SVID{SpiffeId: id, X509Svid: der(p.Cert), X509SvidKey: der(p.Key), Bundle: der(ca.Pair().Cert)})
}

const (
	hubID  = "spiffe://example.com/principal"
	edgeID = "spiffe://example.com/agent/edge-1"
)

func options(t *testing.T, id string) pki.Options {
	u, err := url.Parse(id)
	require.NoError(t, err)
	return pki.Options{Now: time.Now(), Lifetime: time.Hour, URI: u}
}

// A fleet is a CA of SPIFFE, with the APIs of a principal and of an agent.
type fleet struct {
	*testing.T
	hub, edge *api
}

// rotate gives both other certificates, of a CA of its own.
func (f fleet) rotate() {
	ca, err := pki.NewCA("SPIFFE", options(f.T, "spiffe://example.com"))
	require.NoError(f, err)
	hub, err := ca.IssueServer("hub", []string{"elsewhere.example.com"}, options(f.T, hubID))
	require.NoError(f, err)
	edge, err := ca.IssueAgent("workload", options(f.T, edgeID))
	require.NoError(f, err)
	f.hub.gives(ca, hub, hubID)
	f.edge.gives(ca, edge, edgeID)
}

// meet has the two meet, and returns what each says of it, and by what the agent has proved its
// name.
func meet(t *testing.T, m identity.Method, hub, edge *identity.Credentials) (proof identity.Proof, ofHub, ofEdge error) {
	l, err := tls.Listen("tcp", "127.0.0.1:0", hub.Server())
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	dialled := make(chan error, 1)
	go func() {
		c, err := tls.Dial("tcp", l.Addr().String(), edge.Client("127.0.0.1"))
		if err == nil {
			_, err = c.Read(make([]byte, 1))
			_ = c.Close()
		}
		dialled <- err
	}()
	c, err := l.Accept()
	require.NoError(t, err)
	s := c.(*tls.Conn)
	if ofHub = s.Handshake(); ofHub == nil {
		_, ofHub = s.Write([]byte{1})
		state := s.ConnectionState()
		proof, err = m.Prove(hub, identity.Shown{TLS: &state})
		require.NoError(t, err)
	}
	require.NoError(t, c.Close())
	return proof, ofHub, <-dialled
}

// Both sides have certificate and CA from the Workload API, know each other by their SPIFFE IDs, and
// follow a rotation.
func TestIdentitiesComeFromTheWorkloadAPI(t *testing.T) {
	hubAPI, hubSocket := newAPI(t)
	edgeAPI, edgeSocket := newAPI(t)
	f := fleet{t, hubAPI, edgeAPI}
	hubWorkload, err := source.Source(hubSocket)
	require.NoError(t, err)
	t.Setenv("SPIFFE_ENDPOINT_SOCKET", edgeSocket)
	edgeWorkload, err := source.Source("")
	require.NoError(t, err)
	method, err := identity.ParseMethod("spiffe:spiffe://example[.]com/agent/(.+)", identity.Terms{Workload: hubWorkload})
	require.NoError(t, err)
	own := func(id string) identity.Source {
		o, err := identity.ParseOwn("spiffe:"+id, identity.Terms{Workload: edgeWorkload})
		require.NoError(t, err)
		return o(identity.Kept{})
	}
	ofHub, ofEdge := method.Source(identity.Kept{}), own(hubID)

	_, err = ofHub(t.Context())
	require.ErrorContains(t, err, "workload: read the identity from "+hubSocket)
	require.ErrorContains(t, err, "no identity issued")
	f.rotate()
	bundle := func(from identity.Source) identity.Bundle {
		b, err := from(t.Context())
		require.NoError(t, err)
		return b
	}
	made := func(b identity.Bundle) *identity.Credentials {
		c, err := identity.NewCredentials(b, time.Now())
		require.NoError(t, err)
		return c
	}
	hub, edge := made(bundle(ofHub)), made(bundle(ofEdge))
	proof, hubErr, edgeErr := meet(t, method, hub, edge)
	require.NoError(t, hubErr)
	require.NoError(t, edgeErr)
	require.Equal(t, "edge-1", proof.Agent)
	require.NoError(t, hub.Trusts(proof, time.Now()))
	_, _, edgeErr = meet(t, method, hub, made(bundle(own(edgeID))))
	require.ErrorContains(t, edgeErr, "the principal is to be "+edgeID+`, and not ["`+hubID+`"]`)

	f.rotate()
	changed, err := hub.Replace(bundle(ofHub), time.Now())
	require.NoError(t, err)
	require.True(t, changed)
	require.ErrorContains(t, hub.Trusts(proof, time.Now()), "unknown authority")
	_, _, edgeErr = meet(t, method, hub, edge)
	require.ErrorContains(t, edgeErr, "unknown authority")
	changed, err = edge.Replace(bundle(ofEdge), time.Now())
	require.NoError(t, err)
	require.True(t, changed)
	proof, hubErr, edgeErr = meet(t, method, hub, edge)
	require.NoError(t, hubErr)
	require.NoError(t, edgeErr)
	hub.Block(identity.Blocklist{"edge-1": ""})
	require.ErrorContains(t, hub.Trusts(proof, time.Now()), "agent edge-1 is on the blocklist")
}

func TestWhereNoWorkloadAPIIs(t *testing.T) {
	t.Setenv("SPIFFE_ENDPOINT_SOCKET", "")
	none, err := source.Source("")
	require.NoError(t, err)
	require.Nil(t, none)
	_, err = source.Source("not a socket")
	require.ErrorContains(t, err, "workload: ")
	_, err = identity.ParseMethod("spiffe:spiffe://a/(.*)", identity.Terms{})
	require.ErrorContains(t, err, "no socket of the Workload API is named")
	_, err = identity.ParseOwn("spiffe:spiffe://a/b", identity.Terms{})
	require.ErrorContains(t, err, "no socket of the Workload API is named")
	for _, id := range []string{"", "a", "https://a/b", "spiffe://a", "spiffe:///b"} {
		_, err := identity.ParseOwn("spiffe:"+id, identity.Terms{})
		require.ErrorContains(t, err, "is no SPIFFE ID")
	}
}
