package natslink

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// What follows are the attacks of attack_test.go where agents share an account, on a server that
// does not say who has broken its rules.

// sayings are what an agent may not say, wherever.
var sayings = []string{
	"fabric.south.up.key", "fabric.south.down.key", "fabric.north.up.key", "fabric.north.down.key", "fabric.south.ask.down",
	"fabric.south.ask.up", "fabric.south.streams.up", "fabric.south.streams.down", "fabric.north.streams.down",
	"_INBOX_hub_south.1", "_INBOX_south.x", "_GR_.abcdef.abcdef.fabric.south.up.key", "$JS.FC.UP_south.x",
	"$JS.API.STREAM.DELETE.UP_south", "$JS.hub.API.STREAM.PURGE.DOWN_south", "$SYS.REQ.SERVER.PING", "$SYS.REQ.USER.AUTH", "fabric-connections.south",
}

// TestExternalLeafSaysNothingForOthers: neither as itself nor as who claims to be a hub.
func TestExternalLeafSaysNothingForOthers(t *testing.T) {
	everywhere(t, externalLeafSaysNothingForOthers)
}

func externalLeafSaysNothingForOthers(t *testing.T, e *place) {
	s := besiegeElsewhere(t, e)
	for i, subject := range sayings {
		for name, greeting := range map[string]string{
			"leaf": `{"name":"north","headers":true,"protocol":1}`,
			"hub":  `{"name":"north","headers":true,"protocol":1,"hub":true,"domain":"hub","jetstream":true}`,
		} {
			s.name = fmt.Sprint(name, i)
			r := s.greets(greeting)
			require.True(t, r.until("PONG"), "it is not let in")
			r.publishes(subject, "_INBOX_north.x", []byte("text"))
			r.says("PING\r\n")
			require.False(t, r.until("PONG"), "%s: %s", name, subject)
		}
		s.calm()
	}
}

// TestExternalLeafWithoutEffect: what servers say among each other leads nowhere, and an answer
// goes to who has asked only. Who asks for more is named.
func TestExternalLeafWithoutEffect(t *testing.T) { everywhere(t, externalLeafWithoutEffect) }

func externalLeafWithoutEffect(t *testing.T, e *place) {
	s := besiegeElsewhere(t, e)
	r := s.raw("north")
	for _, subject := range []string{"_R_.abcdef", "_R_.abcdef.1", "$JS.ACK.UP_south.x.1.1.1.1.1", "$JS.ACK.hub.HUB.UP_south.x.1.1.1.1.1.1"} {
		for _, reply := range []string{"", "fabric.south.up.key", "_INBOX_hub_south.1", "$JS.API.STREAM.DELETE.UP_south"} {
			r.publishes(subject, reply, []byte("text"))
		}
	}
	r.says("PING\r\n")
	require.True(t, r.until("PONG"))
	s.calm()
	require.Empty(t, s.hub.Troubles())
	for _, reply := range []string{"fabric.south.streams.down", "_INBOX_hub_south.1", "_INBOX_south.x", "fabric.south.ask.up"} {
		r.publishes("fabric.north.ask.down", reply, []byte(`{"hello":{"link":"l","process":"p"},"hold":0}`))
		r.says("PING\r\n")
		require.True(t, r.until("PONG"))
		s.calm()
	}
	s.blamed(transport.RulesBroken, "an agent breaks the rules", "it asks to be answered on")
}

// TestExternalLeafHearsItsOwnOnly: what it listens to beyond that is not said to it, and it is cut
// off for it.
func TestExternalLeafHearsItsOwnOnly(t *testing.T) { everywhere(t, externalLeafHearsItsOwnOnly) }

func externalLeafHearsItsOwnOnly(t *testing.T, e *place) {
	for _, subject := range []string{">", "*.*.>", "fabric.*.streams.*", "_INBOX_hub_south.>", "fabric.*.ask.up queue 1"} {
		s := besiegeElsewhere(t, &place{pki: e.pki, operator: e.operator})
		r := s.raw("north")
		r.says("LS+ %s\r\nPING\r\n", subject)
		require.True(t, r.until("PONG"))
		s.calm()
		one, other := openStream(t, s.south, s.honest, "secret")
		_, err := one.Write([]byte("secret of south"))
		require.NoError(t, err)
		require.NoError(t, one.Close())
		require.NoError(t, other.Close())
		r.publishes("fabric.north.ask.down", "_INBOX_north.answer", []byte(`{"hello":{"link":"l","process":"p"},"hold":1}`))
		r.says("LS+ _INBOX_north.>\r\nPING\r\n")
		heard := ""
		for !strings.HasPrefix(heard, "PONG") {
			heard, err = r.lines.ReadString('\n')
			require.NoError(t, err)
			require.NotContains(t, heard, "south")
		}
		require.NoError(t, s.hub.base.(*cluster).sweepOnce(t.Context()))
		require.False(t, r.until("PONG"), "it is not cut off")
		s.blamed(transport.RulesBroken, "an agent breaks the rules", "it listens to")
		s.calm()
	}
}

// TestExternalLeafIsNoOther: its server would close the connection of a leaf node whose name it
// takes.
func TestExternalLeafIsNoOther(t *testing.T) { everywhere(t, externalLeafIsNoOther) }

func externalLeafIsNoOther(t *testing.T, e *place) {
	s := besiegeElsewhere(t, e)
	for _, greeting := range []string{
		`{"name":"south","remote_account":"LINK","headers":true,"protocol":1}`,
		`{"name":"north","name":"south","remote_account":"LINK","headers":true,"protocol":1}`,
		`{"name":"","headers":true,"protocol":1}`,
	} {
		r := s.greets(greeting)
		require.False(t, r.until("PONG"), "it is let in")
		awaitLine(t, s.said, "refused a connection", `"agent":"north"`, "calls itself")
		s.hub.guard.mu.Lock()
		clear(s.hub.guard.refused) // or else the log is not told again so soon
		s.hub.guard.mu.Unlock()
		s.calm()
	}
}

// TestExternalConnectionsWithoutEnd: of one agent there is one at a time.
func TestExternalConnectionsWithoutEnd(t *testing.T) { everywhere(t, externalConnectionsWithoutEnd) }

func externalConnectionsWithoutEnd(t *testing.T, e *place) {
	s := besiegeElsewhere(t, e)
	var all []*rawLeaf
	for i := range 6 {
		if i%2 == 0 {
			all = append(all, s.raw("north"))
		} else {
			all = append(all, s.rawClient())
		}
	}
	s.newestStays(all)
}

// TestExternalClientIsRefused: it neither says nor hears what it may not.
func TestExternalClientIsRefused(t *testing.T) { everywhere(t, externalClientIsRefused) }

func externalClientIsRefused(t *testing.T, e *place) {
	s := besiegeElsewhere(t, e)
	r := s.rawClient()
	for _, subject := range sayings {
		r.puts(subject, "_INBOX_north.x", []byte("text"))
		require.True(t, r.until("-ERR 'Permissions Violation for Publish to"), subject)
	}
	for i, subject := range []string{">", "*", "*.*.>", "fabric.>", "fabric.*.streams.*", "fabric.south.ask.up", "fabric.north.ask.down", "_INBOX_south.>", "_INBOX_hub_north.>", "_R_.>", "$JS.>", "$SYS.>"} {
		for _, queue := range []string{"", "queue "} {
			r.says("SUB %s %s%d\r\n", subject, queue, i+1)
			require.True(t, r.until("-ERR 'Permissions Violation for Subscription to"), subject)
		}
	}
	s.calm()
}

// TestExternalTokens: nobody else signs what the principal's own connections show.
func TestExternalTokens(t *testing.T) { everywhere(t, externalTokens) }

func externalTokens(t *testing.T, e *place) {
	s := besiegeElsewhere(t, e)
	issuer, err := nkeys.CreateAccount()
	require.NoError(t, err)
	user, err := nkeys.CreateUser()
	require.NoError(t, err)
	public, err := user.PublicKey()
	require.NoError(t, err)
	u := jwt.NewUserClaims(public)
	u.Name, u.Audience = ownSystem, systemAccount
	token, err := u.Encode(issuer)
	require.NoError(t, err)
	for _, shown := range []string{token, "text"} {
		r := s.greets(fmt.Sprintf(`{"name":"north","auth_token":%q}`, shown))
		require.False(t, r.until("PONG"))
	}
	s.calm()
}
