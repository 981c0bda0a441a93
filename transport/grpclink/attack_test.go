package grpclink

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/grpclink/linkpb"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
	"github.com/argocd-fabric/argocd-agent/transport/packetlink"
)

// A siege is a hub with two agents: south, which is honest, and north, whose certificate a
// program has that says whatever it likes.
type siege struct {
	*testing.T
	pki          tlstest.Authority
	hub          *Hub
	address      string
	north, south transport.Link // on the hub
	honest       transport.Link // of south
	said         *observer.ObservedLogs
	rounds       int
}

// small are Limits that are soon reached.
var small = packetlink.Limits{Rows: 1000, Bytes: 8 << 20}

func besiege(t *testing.T, l packetlink.Limits) *siege {
	s := &siege{T: t, pki: tlstest.NewAuthority(t)}
	c := hubConfig(t, s.pki)
	core, said := observer.New(zap.WarnLevel)
	c.Logger, c.Limits, s.said = zap.New(core), l, said
	c.Heartbeat = DefaultHeartbeat // a machine that is attacked may be late: silence is no finding here
	s.hub, _ = startHub(t, c)
	s.address = addr(t, s.hub)
	for name, l := range map[string]*transport.Link{"north": &s.north, "south": &s.south} {
		var err error
		*l, err = s.hub.Link(t.Context(), name)
		require.NoError(t, err)
	}
	own := dialerConfig(t, s.pki, "south", s.address)
	own.Heartbeat = DefaultHeartbeat
	s.honest = dial(t, own)
	await(t, s.honest, is(transport.Up))
	await(t, s.south, is(transport.Up))
	s.calm()
	return s
}

// calm demands that south notices nothing: what is said arrives, either way, over the session
// that there was.
func (s *siege) calm() {
	s.Helper()
	s.rounds++
	text := fmt.Sprint("round ", s.rounds)
	require.NoError(s, s.south.Send(s.Context(), value("key", text)))
	require.NoError(s, s.honest.Send(s.Context(), value("key", text)))
	for _, l := range []transport.Link{s.south, s.honest} {
		await(s, l, func(d transport.Delivery) bool {
			require.NotEqual(s, transport.Down, d.Event)
			require.True(s, d.Event != transport.Value || d.Message.Key == "key", "a row that south has not sent")
			return isValue("key", text)(d)
		})
	}
}

// blamed demands that the log and the troubles of the hub name north, and nobody else.
func (s *siege) blamed(what, why string) {
	s.Helper()
	lines := s.said.FilterMessage("trouble with an agent: " + what).All()
	require.Len(s, lines, 1)
	require.Equal(s, "north", lines[0].ContextMap()["agent"])
	require.Contains(s, lines[0].ContextMap()["error"], why)
	all := s.hub.Troubles()
	require.Len(s, all, 1)
	require.Equal(s, "north", all[0].Agent)
	require.Equal(s, what, all[0].What)
	require.ErrorContains(s, all[0].Err, why)
}

// client returns a client of the service that has north's certificate.
func (s *siege) client() linkpb.LinkClient {
	conn, err := grpc.NewClient("passthrough:///"+s.address,
		grpc.WithTransportCredentials(credentials.NewTLS(s.pki.Client(s, "north").Client("127.0.0.1"))),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(64<<20)), grpc.WithDisableRetry())
	require.NoError(s, err)
	s.Cleanup(func() { require.NoError(s, conn.Close()) })
	return linkpb.NewLinkClient(conn)
}

// session begins one as north, and returns its id.
func (s *siege) session(ctx context.Context) (table linkpb.Link_TableClient, id string) {
	table, err := s.client().Table(ctx)
	require.NoError(s, err)
	require.NoError(s, greet(table, helloOf(presence, "")))
	first, err := table.Recv()
	require.NoError(s, err)
	return table, first.GetHello().GetSession()
}

// says sends frames until the hub refuses them, and returns how. It reads nothing before.
func (s *siege) says(next func(i int) []byte) (refusal *status.Status) {
	table, _ := s.session(s.Context())
	for i := range 1_000_000 {
		if err := table.Send(&linkpb.Packet{Of: &linkpb.Packet_Frames{Frames: next(i)}}); err != nil {
			require.ErrorIs(s, err, io.EOF)
			break
		}
	}
	require.NoError(s, table.CloseSend())
	for {
		if _, err := table.Recv(); err != nil {
			return status.Convert(err)
		}
	}
}

// row returns the frame of a row.
func row(key, digest string, data int) []byte {
	b := []byte{'m'}
	for _, text := range []string{key, digest, `{"specversion":"1.0","id":"1","source":"s","type":"t"}`, strings.Repeat("x", data)} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	return b
}

// TestAgentThatSaysTooMuch: a table without end, of any kind of row, is refused once it is larger
// than it may be, by a reason that names the bound, and the hub holds no more than that.
func TestAgentThatSaysTooMuch(t *testing.T) {
	many := func(key, digest string) func(int) []byte {
		return func(i int) []byte {
			var b []byte
			for k := range 100 {
				b = append(b, row(fmt.Sprintf("%s%d", key, 100*i+k), digest, 0)...)
			}
			return b
		}
	}
	for name, c := range map[string]struct {
		next      func(int) []byte
		what, why string
	}{
		"a million keys":      {many("key-", "1"), copyQuota, "1501 rows, and there may be 1500"},
		"a million deletions": {many("key-", ""), copyQuota, "bytes wait to be received"},
		"reserved keys":       {many("$key-", "1"), copyQuota, "bytes wait to be received"},
		"rows of 4 MiB": {func(i int) []byte { return row(fmt.Sprint("key-", i), "1", transport.MaxMessage) },
			copyQuota, "there may be 16777216"},
		"a row of 5 MiB":        {func(int) []byte { return row("key", "1", 5<<20) }, transport.RulesBroken, transport.ErrTooLarge.Error()},
		"a digest of 1 MiB":     {func(int) []byte { return row("key", strings.Repeat("d", 1<<20), 0) }, transport.RulesBroken, transport.ErrTooLarge.Error()},
		"an account each time":  {func(int) []byte { return append([]byte{'A', 0, 0, 0, 0}, make([]byte, 8)...) }, transport.RulesBroken, "it comes again"},
		"nothing that is known": {func(int) []byte { return []byte("!") }, transport.RulesBroken, "no such frame"},
		"acknowledgements": {func(int) []byte { return binary.AppendUvarint([]byte{'a'}, 1<<62) },
			transport.RulesBroken, "it says that it has taken in"},
	} {
		t.Run(name, func(t *testing.T) {
			s := besiege(t, small)
			before := heap()
			refusal := s.says(c.next)
			require.Contains(t, refusal.Message(), c.why)
			if c.what == copyQuota {
				require.Equal(t, codes.FailedPrecondition, refusal.Code())
				require.Equal(t, roomAgain, retryAfter(refusal.Err()))
			} else {
				require.Equal(t, codes.InvalidArgument, refusal.Code())
			}
			s.blamed(c.what, c.why)
			s.calm()
			require.Less(t, heap(), before+64<<20)
		})
	}
}

// TestTroubleOfATableEndsWithIt: an agent whose table was too large and is not any more is in no
// trouble, and loses nothing.
func TestTroubleOfATableEndsWithIt(t *testing.T) {
	s := besiege(t, small)
	s.says(func(i int) []byte { return row(fmt.Sprint("key-", i), "1", transport.MaxMessage) })
	s.blamed(copyQuota, "too large")
	await(t, s.north, isKey("key-2"))
	table, _ := s.session(t.Context())
	for i := range 3 {
		require.NoError(t, table.Send(&linkpb.Packet{Of: &linkpb.Packet_Frames{Frames: row(fmt.Sprint("key-", i), "", 0)}}))
	}
	require.NoError(t, table.Send(&linkpb.Packet{Of: &linkpb.Packet_Frames{Frames: row("last", "1", 10)}}))
	await(t, s.north, isKey("last"))
	require.Empty(t, s.hub.Troubles())
}

func isKey(key string) func(transport.Delivery) bool {
	return func(d transport.Delivery) bool { return d.Event == transport.Value && d.Message.Key == key }
}

// TestAgentCannotBeAnother: whatever a call says of itself, it is of whom its certificate is, and
// the session of another is nothing that it can use.
func TestAgentCannotBeAnother(t *testing.T) {
	s := besiege(t, small)
	claims := metadata.Pairs("agent", "south", "agent-name", "south", "authorization", "Basic c291dGg6eA==", "x-forwarded-client-cert", `Subject="CN=south"`)
	ctx := metadata.NewOutgoingContext(t.Context(), claims)
	table, _ := s.session(ctx)
	await(t, s.north, is(transport.Up))
	require.NoError(t, table.Send(&linkpb.Packet{Of: &linkpb.Packet_Frames{Frames: row("fabric.south.up.key", "1", 0)}}))
	await(t, s.north, isKey("fabric.south.up.key"))

	s.hub.desk.mu.Lock()
	stolen := s.hub.desk.seats["south"].session.id
	s.hub.desk.mu.Unlock()
	for _, id := range []string{stolen, "", "made up", strings.Repeat("x", 1<<20)} {
		streams, err := s.client().Streams(ctx)
		require.NoError(t, err)
		require.NoError(t, greet(streams, &linkpb.Hello{Session: id}))
		_, err = streams.Recv()
		require.Equal(t, codes.Unavailable, status.Code(err), "%.20s", id)
	}
	mine, theirs := openStream(t, s.south, s.honest)
	_, err := mine.Write([]byte("secret"))
	require.NoError(t, err)
	require.NoError(t, mine.Close())
	all, err := io.ReadAll(theirs)
	require.NoError(t, err)
	require.Equal(t, "secret", string(all))
	require.NoError(t, theirs.Close())
	s.calm()
}

// openStream opens a stream, and returns both ends.
func openStream(t *testing.T, from, to transport.Link) (one, other io.ReadWriteCloser) {
	one, err := from.Streams().Open(t.Context(), "service")
	require.NoError(t, err)
	_, other, err = to.Streams().Accept(t.Context())
	require.NoError(t, err)
	return one, other
}

// TestAgentThatCallsWithoutEnd: of many sessions, calls and connections of one agent few are
// there at a time.
func TestAgentThatCallsWithoutEnd(t *testing.T) {
	t.Run("sessions", func(t *testing.T) {
		s := besiege(t, small)
		client, ended := s.client(), make(chan codes.Code, 100)
		for range cap(ended) {
			table, err := client.Table(t.Context())
			require.NoError(t, err)
			go func() {
				err := greet(table, helloOf(transport.Presence{Process: "one"}, ""))
				for err == nil || errors.Is(err, io.EOF) && table.Context().Err() == nil {
					if _, err = table.Recv(); err != nil {
						break
					}
				}
				ended <- status.Code(err)
			}()
		}
		refused := map[codes.Code]int{}
		for range cap(ended) - 1 {
			refused[<-ended]++
		}
		require.NotZero(t, refused[codes.ResourceExhausted], "nobody was asked to come again later: %v", refused)
		require.NotZero(t, refused[codes.Unavailable], "none was ended by the next: %v", refused)
		s.calm()
	})
	t.Run("streams", func(t *testing.T) {
		s := besiege(t, small)
		table, id := s.session(t.Context())
		for range 2 {
			streams, err := s.client().Streams(t.Context())
			require.NoError(t, err)
			require.NoError(t, greet(streams, &linkpb.Hello{Session: id}))
			_, _ = streams.Recv() // the second ends all
		}
		for {
			if _, err := table.Recv(); err != nil {
				require.Equal(t, codes.InvalidArgument, status.Code(err))
				break
			}
		}
		s.blamed(transport.RulesBroken, "twice")
		s.calm()
	})
	t.Run("hellos", func(t *testing.T) {
		s := besiege(t, small)
		table, err := s.client().Table(t.Context())
		require.NoError(t, err)
		require.NoError(t, greet(table, &linkpb.Hello{Process: "one", Version: strings.Repeat("v", 1<<20)}))
		_, err = table.Recv()
		require.Equal(t, codes.InvalidArgument, status.Code(err))
		s.blamed(transport.RulesBroken, "a text of its hello has 1048576 bytes")
		s.calm()
	})
	t.Run("connections", func(t *testing.T) {
		s := besiege(t, small)
		const n = 5 * maxConnections
		var all sync.WaitGroup
		t.Cleanup(all.Wait)
		hungUp := make(chan struct{}, n)
		for range n {
			c := s.pki.Client(t, "north").Client("127.0.0.1")
			c.NextProtos = []string{"h2"}
			conn, err := tls.Dial("tcp", s.address, c)
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			all.Go(func() {
				_, _ = io.Copy(io.Discard, conn)
				hungUp <- struct{}{}
			})
		}
		for range n - maxConnections {
			<-hungUp
		}
		s.blamed(transport.RulesBroken, "more than 8 connections")
		s.calm()
	})
}

// TestAgentThatNeverReads: what the hub says to it is bounded, and holds up nobody.
func TestAgentThatNeverReads(t *testing.T) {
	s := besiege(t, small)
	table, id := s.session(t.Context())
	streams, err := s.client().Streams(t.Context())
	require.NoError(t, err)
	require.NoError(t, greet(streams, &linkpb.Hello{Session: id}))
	await(t, s.north, is(transport.Up))
	text, full := strings.Repeat("x", 4000), error(nil)
	for i := 0; full == nil; i++ {
		full = s.north.Send(t.Context(), value(fmt.Sprint("key-", i), text))
	}
	require.ErrorIs(t, full, transport.ErrFull)
	conn, err := s.north.Streams().Open(t.Context(), "service")
	require.NoError(t, err)
	require.NoError(t, conn.SetWriteDeadline(time.Now().Add(time.Second)))
	_, err = conn.Write(make([]byte, 64<<20))
	require.Error(t, err)
	s.calm()
	require.NoError(t, table.CloseSend())
}

// TestStormsOfFrames: HTTP/2 that no client says ends with the connection, and harms nobody.
func TestStormsOfFrames(t *testing.T) {
	t.Parallel() // it waits until connections are given up that do nothing
	s := besiege(t, small)
	const n = 5000
	repeat := func(f func(h hostile, i uint32) error) func(hostile) {
		return func(h hostile) {
			h.greets()
			for i := range uint32(n) {
				if f(h, i) != nil {
					return
				}
			}
		}
	}
	var all sync.WaitGroup
	for name, act := range map[string]func(hostile){
		"goaway":   repeat(func(h hostile, i uint32) error { return h.WriteGoAway(0, http2.ErrCodeNo, []byte("again")) }),
		"ping":     repeat(func(h hostile, i uint32) error { return h.WritePing(false, [8]byte{}) }),
		"settings": repeat(func(h hostile, i uint32) error { return h.WriteSettings() }),
		"reset": repeat(func(h hostile, i uint32) error {
			return errors.Join(h.calls(2*i+1), h.WriteRSTStream(2*i+1, http2.ErrCodeCancel))
		}),
		"window": repeat(func(h hostile, i uint32) error { return h.WriteWindowUpdate(0, 1<<30) }),
		"a header of 1 MB": func(h hostile) {
			h.greets()
			_ = h.header(strings.Repeat("x", 1<<20))
		},
	} {
		c := newHostile(t, s.pki, s.address)
		all.Go(func() {
			defer func() { _ = c.Close() }()
			hungUp := make(chan bool, 1)
			go func() { hungUp <- c.listens() }()
			act(c)
			if !<-hungUp {
				t.Errorf("%s: the server does not hang up", name)
			}
		})
		s.calm()
	}
	all.Wait()
	s.calm()
}

// header begins a call with a header that is as long as that.
func (h hostile) header(text string) error {
	var b bytes.Buffer
	if err := hpack.NewEncoder(&b).WriteField(hpack.HeaderField{Name: "x", Value: text}); err != nil {
		return err
	}
	const most = 16 << 10
	block := b.Bytes()
	err := h.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:most]})
	for block = block[most:]; err == nil && len(block) > 0; {
		part := block[:min(most, len(block))]
		block = block[len(part):]
		err = h.WriteContinuation(1, len(block) == 0, part)
	}
	return err
}
