package natslink

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
)

// rawClient connects as north where clients do, and greets as one.
func (s *siege) rawClient() *rawLeaf {
	s.Helper()
	conn, err := tls.Dial("tcp", s.clients(), s.pki.Client(s, "north").Client("127.0.0.1"))
	require.NoError(s, err)
	s.Cleanup(func() { _ = conn.Close() })
	require.NoError(s, conn.SetDeadline(time.Now().Add(2*time.Minute)))
	r := &rawLeaf{conn, bufio.NewReaderSize(conn, 1<<20)}
	r.says("CONNECT {\"name\":\"evil\",\"headers\":true,\"protocol\":1}\r\nPING\r\n")
	require.True(s, r.until("PONG"), "it is not let in")
	return r
}

// clients returns where clients connect.
func (s *siege) clients() string {
	if s.place != nil {
		return s.place.clients
	}
	return clientAddr(s.T, s.hub)
}

// puts says a message as a client does.
func (r *rawLeaf) puts(subject, reply string, data []byte) {
	if reply != "" {
		reply += " "
	}
	r.says("PUB %s %s%d\r\n%s\r\n", subject, reply, len(data), data)
}

// TestRawClientIsRefused: a client that says, or would hear, what it may not is refused each time,
// the log and the troubles name its agent, and nothing comes of it.
func TestRawClientIsRefused(t *testing.T) {
	s := siegeOf(t)
	r := s.rawClient()
	for _, subject := range []string{
		"fabric.south.up.key", "fabric.south.down.key", "fabric.north.up.key", "fabric.north.down.key", "fabric.south.ask.down",
		"fabric.south.ask.up", "fabric.north.ask.up", "fabric.south.streams.up", "fabric.north.streams.down", "_INBOX_hub_south.x",
		"_INBOX_north.x", "_R_.abcdef.1", "_GR_.abcdef.abcdef.fabric.south.up.key", "$JS.FC.UP_south.x", "$JS.ACK.UP_south.x.1.1.1.1.1",
		"$JS.API.INFO", "$JS.API.STREAM.DELETE.UP_south", "$JS.API.DIRECT.GET.DOWN_north", "$JS.hub.API.STREAM.PURGE.DOWN_south",
		"$SYS.REQ.SERVER.PING", "$SYS.REQ.USER.INFO", "$G.x",
	} {
		r.puts(subject, "_INBOX_north.x", []byte("text"))
		require.True(t, r.until("-ERR 'Permissions Violation for Publish to"), subject)
	}
	for i, subject := range []string{
		">", "*", "*.*.>", "fabric.>", "fabric.*.streams.*", "fabric.south.ask.up", "fabric.north.ask.down", "fabric.south.down.key",
		"_INBOX_south.>", "_INBOX_hub_north.>", "_INBOX_hub_south.>", "_R_.>", "$JS.>", "$SYS.>", "_INBOX.>",
	} {
		for _, queue := range []string{"", "queue "} {
			r.says("SUB %s %s%d\r\n", subject, queue, i+1)
			require.True(t, r.until("-ERR 'Permissions Violation for Subscription to"), subject)
		}
	}
	s.blamed(transport.RulesBroken, "an agent breaks the rules", "Violation")
	s.calm()
}

// TestRawClientWithoutEffect: what it may say leads nowhere else, whatever it asks to be answered
// on, and it hears what is its own only.
func TestRawClientWithoutEffect(t *testing.T) {
	s := siegeOf(t)
	r := s.rawClient()
	r.says("SUB _INBOX_north.> 1\r\nSUB fabric.north.ask.up 2\r\nSUB fabric.north.streams.down 3\r\n")
	for _, reply := range []string{"fabric.south.up.key", "fabric.south.ask.down", "_INBOX_hub_south.x", "$JS.API.STREAM.DELETE.UP_south", "fabric.north.down.x"} {
		r.puts("fabric.north.ask.down", reply, []byte(`{"hello":{"link":"l","process":"p"},"hold":0}`))
	}
	s.calm()
	r.puts("fabric.north.ask.down", "_INBOX_north.answer", []byte(`{"hello":{"link":"l","process":"p"},"hold":1}`))
	heard, err := r.lines.ReadString('\n')
	for ; err == nil && !strings.Contains(heard, "_INBOX_north.answer"); heard, err = r.lines.ReadString('\n') {
		require.NotContains(t, heard, "south")
	}
	require.NoError(t, err)
	require.Empty(t, s.hub.Troubles())
	for i := range maxSubs + 1 {
		r.says("SUB _INBOX_north.%d %d\r\n", i, i+10)
	}
	require.True(t, r.until("-ERR 'maximum subscriptions exceeded'"))
	s.blamed(transport.RulesBroken, "an agent breaks the rules", "maximum subscriptions exceeded")
	s.calm()
}

// TestRawClientIsHungUpOn: at what is no protocol, and at what is too large.
func TestRawClientIsHungUpOn(t *testing.T) {
	s := siegeOf(t)
	for why, act := range map[string]func(*rawLeaf){
		"maximum payload exceeded": func(r *rawLeaf) { r.puts("fabric.north.ask.down", "", make([]byte, 9<<20)) },
		"parser ERROR":             func(r *rawLeaf) { r.says("HELLO\r\n") },
	} {
		s.hub.guard.callers.complaints.Forget("north") // or else the log is not told again so soon
		r := s.rawClient()
		act(r)
		r.says("PING\r\n")
		require.False(t, r.until("PONG"), "it is not hung up on")
		s.blamed(transport.RulesBroken, "an agent breaks the rules", why)
		s.calm()
	}
}

// TestRawClientsWithoutEnd: of the connections of one agent the newest is there, if it is a
// client's or the one before was.
func TestRawClientsWithoutEnd(t *testing.T) {
	s := siegeOf(t)
	var all []*rawLeaf
	for i := range 2 * maxCalls {
		if i%3 == 2 {
			all = append(all, s.raw(fmt.Sprint("evil-", i)))
		} else {
			all = append(all, s.rawClient())
		}
	}
	s.newestStays(all)
}

// newestStays holds that of connections that were made one after the other the last is there alone.
func (s *siege) newestStays(all []*rawLeaf) {
	last := len(all) - 1
	for _, r := range all[:last] {
		require.False(s, r.until("PONG"), "it is not hung up on")
	}
	all[last].says("PING\r\n")
	require.True(s, all[last].until("PONG"))
	s.calm()
}

// TestTwoClientsOfOneName: they do not take turns for ever, as leaf nodes do not.
func TestTwoClientsOfOneName(t *testing.T) {
	s := siegeOf(t)
	first, second := s.client("north"), s.client("north")
	awaitLine(t, s.said, "two agents use one name", "north", `"from":"127.0.0.1:`, `"other":"127.0.0.1:`)
	awaitLine(t, s.said, "refused a connection", "north", "another agent of that name is connected from 127.0.0.1:")
	require.NoError(t, second.Close())
	require.NoError(t, first.Send(t.Context(), value("key", "of the first")))
	await(t, s.north, isValue("key", "of the first"))
}

// client opens the Link of an agent that runs no server.
func (s *siege) client(agent string) transport.Link {
	d, err := NewClient(clientConfig(s, s.pki, agent, clientAddr(s, s.hub)))
	require.NoError(s, err)
	l, err := d.Dial(s.Context())
	require.NoError(s, err)
	s.Cleanup(func() { require.NoError(s, l.Close()) })
	return l
}

func clientAddr(t testing.TB, h *Hub) string {
	a, err := h.ClientAddr(t.Context())
	require.NoError(t, err)
	return a
}

func clientConfig(t testing.TB, p tlstest.Authority, agent, connect string) ClientConfig {
	return ClientConfig{Common: quick(t, t.TempDir()), Agent: agent, Connect: connect, Credentials: p.Client(t, agent)}
}
