package natslink

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
)

// elsewhere is the configuration of a server elsewhere: that of deploy/nats, for one server.
const elsewhere = `
server_name: nats-0
listen: "127.0.0.1:%[1]d"
max_payload: 8MB
max_control_line: 16KB
max_subscriptions: 10000
ping_interval: "10s"
ping_max: 2
write_deadline: "30s"
tls { cert_file: "%[3]s/server.crt", key_file: "%[3]s/server.key", ca_file: "%[3]s/ca.crt", verify: true, handshake_first: true, timeout: 10 }
jetstream { store_dir: "%[3]s/store", domain: hub }
leafnodes {
  listen: "127.0.0.1:%[2]d"
  no_advertise: true
  compression: off
  isolate_leafnode_interest: true
  tls { cert_file: "%[3]s/server.crt", key_file: "%[3]s/server.key", ca_file: "%[3]s/ca.crt", verify: true, handshake_first: true, timeout: 10 }
}
system_account: SYS
accounts {
  SYS { }
  HUB { jetstream: enabled, users: [ { nkey: "%[4]s" } ] }
  NOWHERE { exports: [ { service: "fabric.anchor" } ] }
  AGENTS { imports: [ { service: { account: NOWHERE, subject: "fabric.anchor" } } ] }
}
authorization { timeout: 3, auth_callout { issuer: "%[5]s", auth_users: [ "%[4]s" ], account: HUB } }
`

// A place is a server of NATS that is not the principal's.
type place struct {
	pki            tlstest.Authority
	dir            string
	user, issuer   string // seeds
	names          [2]string
	server         *server.Server
	clients, leafs string // where it listens
}

// newPlace starts a server until the test ends. change changes its configuration, which is text.
func newPlace(t testing.TB, p tlstest.Authority, change ...func(string) string) *place {
	e := &place{pki: p, dir: t.TempDir()}
	for i, make := range []func() (nkeys.KeyPair, error){nkeys.CreateUser, nkeys.CreateAccount} {
		key, err := make()
		require.NoError(t, err)
		seed, err := key.Seed()
		require.NoError(t, err)
		e.names[i], err = key.PublicKey()
		require.NoError(t, err)
		*[]*string{&e.user, &e.issuer}[i] = string(seed)
	}
	pair := p.ServerPair(t)
	for name, text := range map[string][]byte{"server.crt": pair.Cert, "server.key": pair.Key, "ca.crt": p.Pair().Cert} {
		require.NoError(t, os.WriteFile(filepath.Join(e.dir, name), text, 0o600))
	}
	e.start(t, -1, -1, change...)
	t.Cleanup(e.stop)
	return e
}

func (e *place) start(t testing.TB, clients, leafs int, change ...func(string) string) {
	text := fmt.Sprintf(elsewhere, clients, leafs, e.dir, e.names[0], e.names[1])
	for _, f := range change {
		text = f(text)
	}
	file := filepath.Join(e.dir, "nats.conf")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	o, err := server.ProcessConfigFile(file)
	require.NoError(t, err)
	o.NoSigs, o.NoLog = true, os.Getenv("NATS_LOG") == ""
	e.server, err = server.NewServer(o)
	require.NoError(t, err)
	if !o.NoLog {
		e.server.ConfigureLogger()
	}
	e.server.Start()
	require.True(t, e.server.ReadyForConnections(time.Minute))
	v, err := e.server.Varz(nil)
	require.NoError(t, err)
	e.clients, e.leafs = e.server.Addr().String(), fmt.Sprintf("127.0.0.1:%d", v.LeafNode.Port)
}

func (e *place) stop() {
	e.server.Shutdown()
	e.server.WaitForShutdown()
}

// cluster is what a Hub is told of the place.
func (e *place) cluster(t testing.TB) *ClusterConfig {
	return &ClusterConfig{URLs: []string{"tls://" + e.clients}, Credentials: e.pki.Client(t, "hub-client"), User: e.user, Issuer: e.issuer, Replicas: 1}
}

func (e *place) hubConfig(t testing.TB) HubConfig {
	c := hubConfig(t, e.pki)
	c.StoreDir, c.Listen, c.Cluster = "", "", e.cluster(t)
	return c
}


func TestExternalPair(t *testing.T) {
	e := newPlace(t, tlstest.NewAuthority(t))
	h, _ := startHub(t, e.hubConfig(t))
	for name, join := range map[string]func(string) transport.Link{
		"leaf": func(name string) transport.Link { return dial(t, leafConfig(t, e.pki, name, e.leafs)) },
		"client": func(name string) transport.Link {
			d, err := NewClient(clientConfig(t, e.pki, name, e.clients))
			require.NoError(t, err)
			l, err := d.Dial(t.Context())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, l.Close()) })
			return l
		},
	} {
		t.Run(name, func(t *testing.T) {
			hub, err := h.Link(t.Context(), name)
			require.NoError(t, err)
			require.NoError(t, hub.Send(t.Context(), value("k", "before")))
			agent := join(name)
			require.NoError(t, agent.Send(t.Context(), value("up/a.b", "1")))
			await(t, agent, isValue("k", "before"))
			await(t, hub, isValue("up/a.b", "1"))
			require.NoError(t, hub.Send(t.Context(), value("k", "after")))
			await(t, agent, isValue("k", "after"))
		})
	}
}
