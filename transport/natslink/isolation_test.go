package natslink

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
)

// refusals returns a Logger that tells of its warnings.
func refusals() (*zap.Logger, <-chan string) {
	all := make(chan string, 1000)
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(lines(all)), zap.WarnLevel)
	return zap.New(core), all
}

type lines chan<- string

// Write tells of a line, unless nobody takes it in.
func (l lines) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default:
	}
	return len(p), nil
}

// awaitLine returns the first line that has all of want in it.
func awaitLine(t *testing.T, from <-chan string, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
next:
	for {
		select {
		case line := <-from:
			for _, w := range want {
				if !strings.Contains(line, w) {
					continue next
				}
			}
			return
		case <-ctx.Done():
			require.FailNow(t, "was not logged", "%q", want)
		}
	}
}

// An attacker is a hostile program that has the certificate of one agent, north, and a
// leaf node that lets it say whatever it wants. The victim is south.
type attacker struct {
	hub   *Hub
	links map[string]transport.Link // on the hub
	leaf  *Leaf
	own   transport.Link // north's
	south transport.Link // the victim's
	wire  *nats.Conn     // in the account that is joined to the hub
	heard chan *nats.Msg // everything that there is to hear there
}

func newAttacker(t *testing.T) *attacker { return attack(t, time.Second) }

// attack returns an attacker where everybody says with this heartbeat that he is there.
func attack(t *testing.T, heartbeat time.Duration) *attacker {
	p := tlstest.NewAuthority(t)
	c := hubConfig(t, p)
	c.Heartbeat = heartbeat
	agent := func(name, connect string) LeafConfig {
		l := leafConfig(t, p, name, connect)
		l.Heartbeat = heartbeat
		return l
	}
	h, _ := startHub(t, c)
	a := &attacker{hub: h, links: map[string]transport.Link{}, heard: make(chan *nats.Msg, 10000)}
	for _, name := range []string{"north", "south"} {
		l, err := h.Link(t.Context(), name)
		require.NoError(t, err)
		a.links[name] = l
	}
	south := dial(t, agent("south", addr(t, h)))
	a.south = south
	require.NoError(t, south.Send(t.Context(), value("key", "of south")))
	require.NoError(t, a.links["south"].Send(t.Context(), value("key", "for south")))
	await(t, a.links["south"], isValue("key", "of south"))
	await(t, south, isValue("key", "for south"))

	var err error
	a.leaf, err = NewLeaf(agent("north", addr(t, h)))
	require.NoError(t, err)
	a.own, err = a.leaf.Dial(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.own.Close()) })
	a.leaf.open.node.admit("attacker", linkAccount)
	a.wire, err = a.leaf.open.node.connect("attacker", "_INBOX_attacker")
	require.NoError(t, err)
	t.Cleanup(a.wire.Close)
	a.barrier(t, "start")
	return a
}

// barrier returns once the hub has taken in all that was said before: what north sends by
// proper means comes behind it on the same connection.
func (a *attacker) barrier(t *testing.T, text string) {
	require.NoError(t, a.wire.FlushTimeout(time.Minute))
	require.NoError(t, a.own.Send(t.Context(), value("barrier", text)))
	await(t, a.links["north"], isValue("barrier", text))
}

// stores returns what the hub holds for both agents, by stream.
func (a *attacker) stores(t *testing.T) map[string]StreamState {
	all := map[string]StreamState{}
	for name := range a.links {
		s, err := a.hub.State(t.Context(), name)
		require.NoError(t, err)
		all["log of "+name], all["copy of "+name] = s.Log, s.Copy
	}
	return all
}

func TestAgentCannotHearWhatIsNotItsOwn(t *testing.T) {
	a := newAttacker(t)
	for _, subject := range []string{">", "*.*.>", "fabric.south.>", "fabric.*.streams.*", "$JS.>", "$SYS.>", "_INBOX_hub_south.>", "_INBOX_south.>", "_R_.>", "$JSC.R.>"} {
		_, err := a.wire.ChanSubscribe(subject, a.heard)
		require.NoError(t, err)
	}
	a.barrier(t, "subscribed")
	require.NoError(t, a.links["south"].Send(t.Context(), value("key", "secret of south")))
	south, err := a.hub.Count(t.Context(), "south")
	require.NoError(t, err)
	south.Stop()
	a.barrier(t, "the other has been served")
	for len(a.heard) > 0 {
		m := <-a.heard
		require.NotContains(t, m.Subject, "south")
		require.NotContains(t, string(m.Data), "south")
		own := strings.HasPrefix(m.Subject, "fabric.north.") || strings.HasPrefix(m.Subject, "_INBOX_north") ||
			strings.HasPrefix(m.Subject, "_INBOX_hub_north")
		require.Truef(t, own, "heard %s", m.Subject)
	}
}

func TestAgentCannotSayAnythingAsAnother(t *testing.T) {
	a := newAttacker(t)
	before := a.stores(t)
	forged, err := encode("fabric.south.up.", value("key", "forged"))
	require.NoError(t, err)
	ask, err := ask{Hello: hello{Link: "l", Process: "p"}, Hold: 1000}.marshal()
	require.NoError(t, err)
	for _, subject := range []string{
		"fabric.south.up.key", "fabric.south.down.key", "fabric.north.up.key", "fabric.north.down.key", "fabric.south.ask.down",
		"fabric.south.ask.up", anchor, "fabric.south.streams.up", "fabric.south.streams.down", "fabric.north.streams.down", "_INBOX_hub_south.x", "$JS.FC.UP_south.x", "$JS.ACK.UP_south.x.1.1.1.1.1",
	} {
		for _, reply := range []string{"", "fabric.south.up.evil", "fabric.south.down.key"} {
			m := &nats.Msg{Subject: subject, Reply: reply, Header: forged.Header, Data: forged.Data}
			require.NoError(t, a.wire.PublishMsg(m))
		}
	}
	// A request that is answered, with the answer sent to where it does harm.
	for _, reply := range []string{"fabric.south.up.evil", "fabric.south.down.key", "fabric.north.down.x", "fabric.north.ask.down", "$JS.API.STREAM.PURGE.UP_south"} {
		require.NoError(t, a.wire.PublishRequest("fabric.north.ask.down", reply, ask))
	}
	a.barrier(t, "said")
	after := a.stores(t)
	for name, b := range before {
		if name == "copy of north" {
			continue // it holds one more, of the barrier
		}
		require.Equal(t, b, after[name], name)
	}
	require.Equal(t, before["copy of north"].LastSeq+1, after["copy of north"].LastSeq)
}

func TestAgentCannotUseTheStore(t *testing.T) {
	a := newAttacker(t)
	before := a.stores(t)
	answers, err := a.wire.SubscribeSync("_INBOX_north.attack")
	require.NoError(t, err)
	// Without a domain it is the agent's own server that answers, of an account without a store.
	for prefix, reply := range map[string]string{"$JS.API.": "_INBOX_north.ignored", "$JS.hub.API.": answers.Subject, "FAB.API.": answers.Subject} {
		for _, what := range []string{
			"INFO", "STREAM.NAMES", "STREAM.LIST", "STREAM.INFO.UP_south", "STREAM.DELETE.UP_south", "STREAM.PURGE.DOWN_south",
			"STREAM.MSG.GET.DOWN_south", "DIRECT.GET.DOWN_south", "STREAM.MSG.DELETE.UP_south", "STREAM.CREATE.UP_evil",
			"STREAM.UPDATE.UP_south", "CONSUMER.CREATE.DOWN_south", "CONSUMER.LIST.DOWN_south", "STREAM.DELETE.UP_north",
		} {
			require.NoError(t, a.wire.PublishRequest(prefix+what, reply, []byte(`{"seq":1}`)))
		}
	}
	a.barrier(t, "asked")
	pending, _, err := answers.Pending()
	require.NoError(t, err)
	for range pending {
		_, err := answers.NextMsg(time.Minute)
		require.ErrorIs(t, err, nats.ErrNoResponders)
	}
	after := a.stores(t)
	for _, name := range []string{"log of south", "copy of south", "log of north"} {
		require.Equal(t, before[name], after[name])
	}
}

// TestAgentCannotTouchStreamsOfAnother: an agent that knows all there is to know of
// another's streams can neither speak on them, nor end them, nor open any.
func TestAgentCannotTouchStreamsOfAnother(t *testing.T) {
	a := newAttacker(t)
	_, err := a.wire.ChanSubscribe("fabric.south.streams.*", a.heard)
	require.NoError(t, err)
	one, other := openStream(t, a.links["south"], a.south, "secret")
	_, err = one.Write([]byte("secret of south"))
	require.NoError(t, err)
	// What each end would take in next: a stream that is opened, on the session that there is.
	for l, subject := range map[transport.Link]string{a.links["south"]: "fabric.south.streams.up", a.south: "fabric.south.streams.down"} {
		s := l.(*link).streams
		s.mu.Lock()
		forged := parcel{from: s.pipe.theirs, to: s.pipe.mine, number: s.pipe.in + 1}.append(nil)
		s.mu.Unlock()
		require.NoError(t, a.wire.Publish(subject, append(forged, "\x01\x03\x04evil"...)))
		require.NoError(t, a.wire.PublishRequest("fabric.north.ask.down", subject, forged))
	}
	a.barrier(t, "said")
	require.NoError(t, one.Close())
	all, err := io.ReadAll(other)
	require.NoError(t, err)
	require.Equal(t, "secret of south", string(all))
	require.NoError(t, other.Close())
	openStream(t, a.links["south"], a.south, "next")
	openStream(t, a.south, a.links["south"], "next") // it is the first that is accepted
	for len(a.heard) > 0 {                           // it hears itself, on its own server
		require.NotContains(t, string((<-a.heard).Data), "secret")
	}
}

// TestHostileStreams: an agent that breaks the rules of streams, and speaks without end,
// harms its own only.
func TestHostileStreams(t *testing.T) {
	a := attack(t, DefaultHeartbeat) // a machine that is attacked may be late: silence is no finding here
	one, other := openStream(t, a.links["south"], a.south, "of south")
	own, _ := openStream(t, a.own, a.links["north"], "of north")
	s := a.own.(*link).streams
	s.mu.Lock()
	good := parcel{from: s.pipe.mine, to: s.pipe.theirs, number: s.pipe.out + 1}.append(nil)
	s.mu.Unlock()
	for range 200 {
		for _, b := range [][]byte{nil, []byte("short"), make([]byte, parcelHead), make([]byte, maxParcel+1), append(good[:parcelHead:parcelHead], 99)} {
			require.NoError(t, a.wire.Publish("fabric.north.streams.up", b))
		}
	}
	_, err := io.ReadAll(own)
	require.ErrorIs(t, err, transport.ErrAway)
	a.barrier(t, "said")
	_, err = one.Write([]byte("text"))
	require.NoError(t, err)
	require.NoError(t, one.Close())
	all, err := io.ReadAll(other)
	require.NoError(t, err)
	require.Equal(t, "text", string(all))
	openStream(t, a.own, a.links["north"], "of north, again")
}

// TestForgedRowsAreDropped: an agent puts into its log what is no message of its own.
func TestForgedRowsAreDropped(t *testing.T) {
	a := newAttacker(t)
	good, err := encode("fabric.north.up.", value("good", "text"))
	require.NoError(t, err)
	rolled := nats.Header{"Nats-Rollup": {"all"}, "Nats-TTL": {"1s"}, "Nats-Expected-Last-Sequence": {"1"}}
	for k, v := range good.Header {
		rolled[k] = v
	}
	rows := []row{
		{seq: 1001, tail: "a..b", header: good.Header, data: good.Data},            // no subject
		{seq: 1002, tail: "*.>", header: good.Header, data: good.Data},             // wildcards
		{seq: 1003, tail: "%67ood", header: good.Header, data: good.Data},          // another spelling
		{seq: 1004, tail: "no event", header: nats.Header{}, data: []byte("text")}, // no CloudEvent
		{seq: 1005, tail: "good", header: rolled, data: good.Data},                 // orders for the server
	}
	puller := a.links["north"].(*link).puller
	dropped := puller.dropped.Load()
	forgeOnce(t, a, answer{Hello: hello{Link: "forged", Process: "forged"}, Upto: position{"forged", 1005}, rows: rows})
	await(t, a.links["north"], isValue("good", "text"))
	require.Equal(t, dropped+4, puller.dropped.Load())
	s, err := a.hub.State(t.Context(), "north")
	require.NoError(t, err)
	require.Equal(t, dropped+4, s.Dropped)
	require.Equal(t, uint64(2), s.Copy.Messages, "the barrier's was rolled up")
}

// forgeOnce answers the hub's asks with forged until the hub has taken it in, and lets the agent
// answer those after it.
func forgeOnce(t *testing.T, a *attacker, forged answer) {
	data, err := forged.marshal()
	require.NoError(t, err)
	taken := false
	_, err = a.wire.Subscribe("fabric.north.ask.up", func(m *nats.Msg) {
		ask, err := unmarshalAsk(m.Data)
		if taken = taken || err != nil || ask.Have.Epoch == forged.Upto.Epoch; !taken {
			_ = m.Respond(data)
		}
	})
	require.NoError(t, err)
	require.NoError(t, a.wire.FlushTimeout(time.Minute))
	// The ask that is open is answered by the agent, and so may be the next; when the agent has
	// nothing more to say we are the first.
	require.NoError(t, a.own.Send(t.Context(), value("barrier", "provokes an ask")))
}

func TestConnectionsThatAreRefused(t *testing.T) {
	p, stranger := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	c := hubConfig(t, p)
	log, lines := refusals()
	c.Logger = log
	h, _ := startHub(t, c)
	connect := addr(t, h)
	_, err := h.Link(t.Context(), "north")
	require.NoError(t, err)

	t.Run("unregistered agent", func(t *testing.T) {
		dial(t, leafConfig(t, p, "south", connect))
		awaitLine(t, lines, "refused a connection", `"agent":"south"`, transport.ErrUnknown.Error())
	})
	t.Run("name that is none", func(t *testing.T) {
		pair, err := p.IssueServer("kube-system", []string{"127.0.0.1"}, tlstest.Options())
		require.NoError(t, err)
		lc := leafConfig(t, p, "west", connect)
		lc.Credentials = tlstest.Credentials(t, pair, p)
		dial(t, lc)
		awaitLine(t, lines, "TLS leafnode handshake error") // it is no client's certificate
	})
	t.Run("certificate of another CA", func(t *testing.T) {
		lc := leafConfig(t, stranger, "north", connect)
		lc.Credentials = tlstest.Credentials(t, stranger.AgentPair(t, "north"), p, stranger)
		dial(t, lc)
		awaitLine(t, lines, "TLS leafnode handshake error")
	})
	t.Run("no certificate", func(t *testing.T) {
		nobody := p.Client(t, "north").Client("127.0.0.1")
		nobody.GetClientCertificate = nil
		conn, err := tls.Dial("tcp", connect, nobody)
		require.NoError(t, err) // TLS 1.3 refuses with the first bytes
		_, err = io.ReadAll(conn)
		require.Error(t, err)
		require.NoError(t, conn.Close())
	})
	t.Run("certificate of another agent", func(t *testing.T) {
		lc := leafConfig(t, p, "south", connect)
		lc.Credentials = p.Client(t, "north")
		_, err := NewLeaf(lc)
		require.ErrorContains(t, err, `the certificate is of agent "north", not of "south"`)
	})
	t.Run("client protocol", func(t *testing.T) {
		// It may say what the agent may say, and the hub hangs up at what no leaf node says.
		heard := speak(t, connect, p.Client(t, "north").Client("127.0.0.1"), "CONNECT {\"verbose\":true}\r\nSUB > 1\r\nPING\r\n")
		for _, line := range heard {
			require.True(t, strings.HasPrefix(line, "LS+ "), line)
		}
	})
	t.Run("garbage", func(t *testing.T) {
		require.Empty(t, speak(t, connect, p.Client(t, "north").Client("127.0.0.1"), strings.Repeat("x", 1<<20)+"\r\n"))
	})
	t.Run("registered agent", func(t *testing.T) {
		l := dial(t, leafConfig(t, p, "north", connect))
		await(t, l, func(d transport.Delivery) bool { return d.Event == transport.Up })
	})
}

// speak says something to the leaf port, with a good certificate, and returns what it hears
// but for what the server says of itself and of errors, until the server hangs up.
func speak(t *testing.T, address string, c *tls.Config, text string) []string {
	conn, err := tls.Dial("tcp", address, c)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, _ = io.WriteString(conn, text) // it may hang up meanwhile
	all, err := io.ReadAll(conn)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		require.FailNow(t, "the server does not hang up")
	}
	var heard []string
	for _, line := range strings.Split(string(all), "\r\n") {
		if line != "" && !strings.HasPrefix(line, "INFO ") && !strings.HasPrefix(line, "-ERR ") {
			heard = append(heard, line)
		}
	}
	return heard
}

func TestForgottenAgentIsCutOff(t *testing.T) {
	p := tlstest.NewAuthority(t)
	c := hubConfig(t, p)
	log, lines := refusals()
	c.Logger = log
	h, _ := startHub(t, c)
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	agent := dial(t, leafConfig(t, p, "north", addr(t, h)))
	await(t, agent, func(d transport.Delivery) bool { return d.Event == transport.Up })
	require.NoError(t, hub.Close())
	require.NoError(t, h.Forget(t.Context(), "north"))
	await(t, agent, func(d transport.Delivery) bool { return d.Event == transport.Down })
	awaitLine(t, lines, "refused a connection", "north", transport.ErrUnknown.Error())
	z, err := h.node.current().Jsz(&server.JSzOptions{Accounts: true, Streams: true})
	require.NoError(t, err)
	require.Zero(t, z.Streams)
	require.ErrorIs(t, h.Forget(t.Context(), "north"), transport.ErrUnknown)
	require.ErrorIs(t, h.Forget(t.Context(), "never-heard-of"), transport.ErrUnknown)
	_, err = h.Link(t.Context(), "not a name")
	require.ErrorIs(t, err, transport.ErrUnknown)
}

func TestManyAgentsComeAndGo(t *testing.T) {
	p := tlstest.NewAuthority(t)
	h, _ := startHub(t, hubConfig(t, p))
	for i := range 30 {
		name := fmt.Sprintf("agent-%d", i)
		l, err := h.Link(t.Context(), name)
		require.NoError(t, err)
		require.NoError(t, l.Send(t.Context(), value("key", name)))
		require.NoError(t, l.Close())
		require.NoError(t, h.Forget(t.Context(), name))
	}
	v, err := h.node.current().Varz(nil)
	require.NoError(t, err)
	require.Equal(t, hubStores, v.Connections)
	require.Empty(t, h.links)
	require.Empty(t, h.guard.users)
	require.Len(t, h.node.users, 1)
	require.Empty(t, h.node.all())
	require.Empty(t, h.accounts.of)
	require.Equal(t, 1, h.accounts.made, "an account is not used again")
	kept, err := h.Kept(t.Context())
	require.NoError(t, err)
	require.Empty(t, kept)
}
