package natslink

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
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
`

// configured is who is who there, in its configuration.
const configured = `
system_account: SYS
accounts {
  SYS { }
  HUB { jetstream: enabled, users: [ { nkey: "%[1]s" } ] }
  NOWHERE { exports: [ { service: "fabric.anchor" } ] }
  AGENTS { imports: [ { service: { account: NOWHERE, subject: "fabric.anchor" } } ] }
}
authorization { timeout: 3, auth_callout { issuer: "%[2]s", auth_users: [ "%[1]s" ], account: HUB } }
`

// everywhere runs a test with servers that have their users in their configuration, and with servers in
// operator mode.
func everywhere(t *testing.T, test func(t *testing.T, e *place)) {
	t.Run("configured", func(t *testing.T) { test(t, &place{pki: tlstest.NewAuthority(t)}) })
	t.Run("operated", func(t *testing.T) { test(t, &place{pki: tlstest.NewAuthority(t), operator: newOperator(t)}) })
}

// A place is a server of NATS that is not the principal's.
type place struct {
	pki            tlstest.Authority
	dir            string
	user, issuer   string // seeds
	names          [2]string
	operator       *operator   // nil is that the server has its users in its configuration
	trust          *tls.Config // by which leaf nodes are met, and no client is; nil is by the files
	server         *server.Server
	clients, leafs string // where it listens
}

// newPlace starts a server until the test ends. change changes its configuration, which is text.
func newPlace(t testing.TB, p tlstest.Authority, change ...func(string) string) *place {
	return openPlace(t, &place{pki: p}, change...)
}

func openPlace(t testing.TB, e *place, change ...func(string) string) *place {
	e.dir = t.TempDir()
	for i, make := range []func() (nkeys.KeyPair, error){nkeys.CreateUser, nkeys.CreateAccount} {
		key, err := make()
		require.NoError(t, err)
		seed, err := key.Seed()
		require.NoError(t, err)
		e.names[i], err = key.PublicKey()
		require.NoError(t, err)
		*[]*string{&e.user, &e.issuer}[i] = string(seed)
	}
	pair := e.pki.ServerPair(t)
	for name, text := range map[string][]byte{"server.crt": pair.Cert, "server.key": pair.Key, "ca.crt": e.pki.Pair().Cert} {
		require.NoError(t, os.WriteFile(filepath.Join(e.dir, name), text, 0o600))
	}
	e.start(t, change...)
	t.Cleanup(func() {
		e.server.Shutdown()
		e.server.WaitForShutdown()
	})
	return e
}

func (e *place) start(t testing.TB, change ...func(string) string) {
	text := fmt.Sprintf(elsewhere, -1, -1, e.dir)
	if e.operator != nil {
		text += e.operator.conf(t)
	} else {
		text += fmt.Sprintf(configured, e.names[0], e.names[1])
	}
	for _, f := range change {
		text = f(text)
	}
	file := filepath.Join(e.dir, "nats.conf")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	o, err := server.ProcessConfigFile(file)
	require.NoError(t, err)
	o.NoSigs, o.NoLog = true, true
	if e.trust != nil {
		o.LeafNode.TLSConfig, o.TLSConfig, o.TLS = e.trust, nil, false
	}
	e.server, err = server.NewServer(o)
	require.NoError(t, err)
	e.server.Start()
	require.True(t, e.server.ReadyForConnections(time.Minute))
	v, err := e.server.Varz(nil)
	require.NoError(t, err)
	e.clients, e.leafs = e.server.Addr().String(), fmt.Sprintf("127.0.0.1:%d", v.LeafNode.Port)
}

// cluster is what a Hub is told of the place.
func (e *place) cluster(t testing.TB) *ClusterConfig {
	c := &ClusterConfig{URLs: []string{"tls://" + e.clients}, Credentials: e.pki.Client(t, "hub-client"), User: e.user, Issuer: e.issuer, Replicas: 1}
	if e.operator != nil {
		e.operator.say(t, c)
	}
	return c
}

func (e *place) hubConfig(t testing.TB) HubConfig {
	c := hubConfig(t, e.pki)
	c.StoreDir, c.Listen, c.Cluster = "", "", e.cluster(t)
	return c
}

func TestExternalPair(t *testing.T) { everywhere(t, externalPair) }

func externalPair(t *testing.T, e *place) {
	openPlace(t, e)
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

// TestExternalCut: an agent that is blocked or forgotten is cut off within a second, however it
// has connected, and is not let in again.
func TestExternalCut(t *testing.T) { everywhere(t, externalCut) }

func externalCut(t *testing.T, e *place) {
	p := openPlace(t, e).pki
	for kind, join := range map[string]func(t *testing.T) transport.Link{
		"leaf":   func(t *testing.T) transport.Link { return dial(t, leafConfig(t, p, "north", e.leafs)) },
		"client": func(t *testing.T) transport.Link { return join(t, clientConfig(t, p, "north", e.clients)) },
	} {
		for why, cut := range map[string]func(*testing.T, *Hub, transport.Link){
			"blocked": func(t *testing.T, h *Hub, _ transport.Link) {
				h.config.Credentials.Block(identity.Blocklist{"north": ""})
			},
			"forgotten": func(t *testing.T, h *Hub, l transport.Link) {
				require.NoError(t, l.Close())
				require.NoError(t, h.Forget(t.Context(), "north"))
			},
		} {
			t.Run(kind+" "+why, func(t *testing.T) {
				c := e.hubConfig(t)
				log, lines := refusals()
				c.Logger = log
				h, stop := startHub(t, c)
				defer stop()
				hub, err := h.Link(t.Context(), "north")
				require.NoError(t, err)
				agent := join(t)
				awaitEvent(t, hub, transport.Up)
				awaitEvent(t, agent, transport.Up)
				began := time.Now()
				cut(t, h, hub)
				awaitEvent(t, agent, transport.Down)
				t.Log("it was down after", time.Since(began))
				awaitLine(t, lines, "refused a connection", "north")
			})
		}
	}
}

// join opens the Link of an agent that runs no server.
func join(t *testing.T, c ClientConfig) transport.Link {
	d, err := NewClient(c)
	require.NoError(t, err)
	l, err := d.Dial(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// TestExternalPrincipalRestarts: connections stay, and can be cut by the process after.
func TestExternalPrincipalRestarts(t *testing.T) { everywhere(t, externalPrincipalRestarts) }

func externalPrincipalRestarts(t *testing.T, e *place) {
	p := openPlace(t, e).pki
	c := e.hubConfig(t)
	h, stop := startHub(t, c)
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	agent := dial(t, leafConfig(t, p, "north", e.leafs))
	awaitEvent(t, hub, transport.Up)
	awaitEvent(t, agent, transport.Up)
	before := e.leaf(t)
	stop()
	awaitEvent(t, agent, transport.Down)
	require.NoError(t, agent.Send(t.Context(), value("key", "meanwhile")))

	h, _ = startHub(t, c)
	hub, err = h.Link(t.Context(), "north")
	require.NoError(t, err)
	await(t, hub, isValue("key", "meanwhile"))
	require.Equal(t, before, e.leaf(t), "it has connected again")
	require.NoError(t, h.base.(*cluster).sweepOnce(t.Context()))
	require.Equal(t, before, e.leaf(t), "a connection was closed that the process before has let in")
	awaitEvent(t, agent, transport.Up)
	c.Credentials.Block(identity.Blocklist{"north": ""})
	awaitEvent(t, agent, transport.Down)
}

// leaf returns the number of the one leaf node's connection.
func (e *place) leaf(t testing.TB) uint64 {
	z, err := e.server.Leafz(nil)
	require.NoError(t, err)
	require.Len(t, z.Leafs, 1)
	return z.Leafs[0].ID
}

// TestExternalStreamsAreKept: one that somebody deletes or changes is made what it should be, while
// the hub runs.
func TestExternalStreamsAreKept(t *testing.T) {
	p := tlstest.NewAuthority(t)
	e := newPlace(t, p)
	h, _ := startHub(t, e.hubConfig(t))
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	agent := dial(t, leafConfig(t, p, "north", e.leafs))
	require.NoError(t, hub.Send(t.Context(), value("key", "text")))
	await(t, agent, isValue("key", "text"))
	js := h.stores[0]
	require.NoError(t, js.DeleteStream(t.Context(), "DOWN_north"))
	awaitEvent(t, hub, transport.LogLost)
	require.NoError(t, hub.Send(t.Context(), value("key", "again")))
	await(t, agent, isValue("key", "again"))

	s, err := js.Stream(t.Context(), "DOWN_north")
	require.NoError(t, err)
	changed := s.CachedInfo().Config
	changed.MaxMsgsPerSubject, changed.Discard = 7, jetstream.DiscardOld
	_, err = js.UpdateStream(t.Context(), changed)
	require.NoError(t, err)
	require.NoError(t, h.base.(*cluster).compare(t.Context()))
	s, err = js.Stream(t.Context(), "DOWN_north")
	require.NoError(t, err)
	require.Equal(t, int64(1), s.CachedInfo().Config.MaxMsgsPerSubject)
	require.Equal(t, jetstream.DiscardNew, s.CachedInfo().Config.Discard)
}

// TestExternalServersThatWillNotDo: what is wrong with them is said at the start, and what to do.
func TestExternalServersThatWillNotDo(t *testing.T) {
	p := tlstest.NewAuthority(t)
	for name, c := range map[string]struct {
		change func(string) string
		as     func(*ClusterConfig)
		want   []string
	}{
		"small messages": {change: func(s string) string { return strings.Replace(s, "max_payload: 8MB", "max_payload: 1MB", 1) },
			want: []string{"takes messages of 1048576 bytes", "write max_payload: 8MB"}},
		"no store": {change: func(s string) string { return strings.Replace(s, "jetstream: enabled,", "", 1) },
			want: []string{"keeps no streams for this user", "write jetstream: enabled in the account HUB"}},
		"no room": {change: func(s string) string {
			return strings.Replace(s, "jetstream: enabled,", "jetstream: { max_file: 1MB },", 1)
		},
			want: []string{"insufficient storage resources", "lower it, or give the server more"}},
		"another issuer": {change: func(s string) string { return s }, as: func(c *ClusterConfig) {
			key, _ := nkeys.CreateAccount()
			seed, _ := key.Seed()
			c.Issuer = string(seed)
		}, want: []string{"do not let in whom this principal lets in", "auth_callout { issuer: A"}},
		"another user": {change: func(s string) string { return s }, as: func(c *ClusterConfig) {
			key, _ := nkeys.CreateUser()
			seed, _ := key.Seed()
			c.User = string(seed)
		}, want: []string{"the servers must have the principal's user in the account HUB"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newPlace(t, p, c.change)
			of := e.hubConfig(t)
			if c.as != nil {
				c.as(of.Cluster)
			}
			h, err := NewHub(of)
			require.NoError(t, err)
			err = h.Run(t.Context())
			for _, w := range c.want {
				require.ErrorContains(t, err, w)
			}
		})
	}
}

// TestExternalTrust runs the suite of every transport over TLS.
func TestExternalTrust(t *testing.T) { everywhere(t, externalTrust) }

func externalTrust(t *testing.T, at *place) {
	tlstest.Run(t, tlstest.Adapter{
		Mute: true, Elsewhere: true,
		Hub: func(t *testing.T, c tlstest.Hub) (transport.Hub, string) {
			e := openPlace(t, &place{pki: tlstest.NewAuthority(t), operator: at.operator, trust: c.Own.Server()})
			of := e.hubConfig(t)
			of.Cluster.URLs, of.Cluster.Credentials = []string{"nats://" + e.clients}, nil
			of.Heartbeat, of.Logger, of.Credentials, of.Authenticate = c.Heartbeat, c.Log, c.Own, c.Authenticate
			h, _ := startHub(t, of)
			return h, e.leafs
		},
		Dialer: secured.Dialer,
	})
}

// TestExternalAfterEmbedded: agents that were served by a server of the principal's own are served
// elsewhere with what they have, by their certificates, and nothing is taken back meanwhile.
func TestExternalAfterEmbedded(t *testing.T) {
	p := tlstest.NewAuthority(t)
	e := newPlace(t, p)
	kept := leafConfig(t, p, "north", "")
	h, stop := startHub(t, hubConfig(t, p))
	kept.Connect = addr(t, h)
	for _, place := range []string{"here", "elsewhere"} {
		if place == "elsewhere" {
			stop()
			h, _ = startHub(t, e.hubConfig(t))
			kept.Connect = e.leafs
		}
		hub, err := h.Link(t.Context(), "north")
		require.NoError(t, err)
		leaf, err := NewLeaf(kept)
		require.NoError(t, err)
		agent, err := leaf.Dial(t.Context())
		require.NoError(t, err)
		if place == "elsewhere" { // what it has heard is there before anybody is
			await(t, agent, isValue("down", "here"))
		}
		require.NoError(t, hub.Send(t.Context(), value("down", place)))
		require.NoError(t, agent.Send(t.Context(), value("up "+place, "text")))
		await(t, agent, isValue("down", place))
		await(t, hub, isValue("up "+place, "text"))
		state, err := h.State(t.Context(), "north")
		require.NoError(t, err)
		require.Equal(t, map[string]uint64{"here": 1, "elsewhere": 2}[place], state.Copy.Messages, "the hub is told all of it again")
		require.NoError(t, agent.Close())
	}
}
