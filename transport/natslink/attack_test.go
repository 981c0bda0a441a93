package natslink

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
)

// A siege is a hub with two agents: south, which is honest, and north, whose certificate a
// program has that speaks the protocol of leaf nodes by hand. No server is between it and the
// hub that would keep it from anything.
type siege struct {
	*testing.T
	place        *place // nil if the hub's server is its own
	pki          tlstest.Authority
	hub          *Hub
	address      string
	north, south transport.Link // on the hub
	honest       transport.Link // of south
	said         <-chan string
	name         string // of a part of the test
	rounds       int
}

func besiege(t *testing.T, quota int64) *siege {
	s := &siege{T: t, pki: tlstest.NewAuthority(t)}
	c := hubConfig(t, s.pki)
	c.Quota = quota
	c.ClientListen = anyPort
	s.begin(c)
	return s
}

// besiegeElsewhere is besiege where the agents' server is not the hub's, and they share an account.
func besiegeElsewhere(t *testing.T, e *place) *siege {
	s := &siege{T: t, pki: e.pki, place: openPlace(t, e)}
	s.begin(s.place.hubConfig(t))
	return s
}

func (s *siege) begin(c HubConfig) {
	t := s.T
	c.Logger, s.said = refusals()
	c.Heartbeat = DefaultHeartbeat // a machine that is attacked may be late: silence is no finding here
	s.hub, _ = startHub(t, c)
	if s.address = addr(t, s.hub); s.place != nil {
		s.address = s.place.leafs
	}
	for name, l := range map[string]*transport.Link{"north": &s.north, "south": &s.south} {
		var err error
		*l, err = s.hub.Link(t.Context(), name)
		require.NoError(t, err)
	}
	own := leafConfig(t, s.pki, "south", s.address)
	own.Heartbeat = DefaultHeartbeat
	s.honest = dial(t, own)
	awaitEvent(t, s.honest, transport.Up)
	awaitEvent(t, s.south, transport.Up)
	s.calm()
}

// calm demands that south notices nothing: what is said arrives, either way, over the connection
// that there was, and nothing else is in its streams.
func (s *siege) calm() {
	s.Helper()
	s.rounds++
	text := fmt.Sprint(s.name, " round ", s.rounds)
	require.NoError(s, s.south.Send(s.Context(), value("key", text)))
	require.NoError(s, s.honest.Send(s.Context(), value("key", text)))
	for _, l := range []transport.Link{s.south, s.honest} {
		await(s, l, func(d transport.Delivery) bool {
			require.NotEqual(s, transport.Down, d.Event)
			return isValue("key", text)(d)
		})
	}
	state, err := s.hub.State(s.Context(), "south")
	require.NoError(s, err)
	require.Equal(s, uint64(1), state.Copy.Messages)
	require.Equal(s, uint64(1), state.Log.Messages)
}

// blamed demands that the log and the troubles of the hub name north, and nobody else.
func (s *siege) blamed(what string, why ...string) {
	s.Helper()
	awaitLine(s.T, s.said, append(why, `"agent":"north"`)...)
	all := s.hub.Troubles()
	require.Len(s, all, 1)
	require.Equal(s, "north", all[0].Agent)
	require.Equal(s, what, all[0].What)
}

// A rawLeaf is a connection that says what it is told to say.
type rawLeaf struct {
	*tls.Conn
	lines *bufio.Reader
}

// raw connects as north, and greets as a leaf node of that name.
func (s *siege) raw(name string) *rawLeaf {
	s.Helper()
	r := s.greets(fmt.Sprintf("{\"name\":%q,\"server_id\":%q,\"headers\":true,\"protocol\":1}", name, name))
	require.True(s, r.until("PONG"), "it is not let in")
	return r
}

// greets connects as north, and greets as a leaf node so.
func (s *siege) greets(how string) *rawLeaf {
	s.Helper()
	conn, err := tls.Dial("tcp", s.address, s.pki.Client(s, "north").Client("127.0.0.1"))
	require.NoError(s, err)
	s.Cleanup(func() { _ = conn.Close() })
	require.NoError(s, conn.SetDeadline(time.Now().Add(2*time.Minute)))
	r := &rawLeaf{conn, bufio.NewReaderSize(conn, 1<<20)}
	r.says("CONNECT %s\r\nPING\r\n", how)
	return r
}

func (r *rawLeaf) says(format string, v ...any) { _, _ = fmt.Fprintf(r, format, v...) } // it may be hung up on

// until reads until a line begins so, and reports whether one does before the hub hangs up.
func (r *rawLeaf) until(begins string) bool {
	for {
		line, err := r.lines.ReadString('\n')
		switch {
		case err != nil:
			return false
		case strings.HasPrefix(line, begins):
			return true
		case line == "PING\r\n":
			r.says("PONG\r\n")
		}
	}
}

// publishes says a message on a subject, with a reply subject unless that is empty.
func (r *rawLeaf) publishes(subject, reply string, data []byte) {
	if reply != "" {
		reply += " "
	}
	r.says("LMSG %s %s%d\r\n%s\r\n", subject, reply, len(data), data)
}

// TestRawLeafIsHungUpOn: a leaf node that says what it may not is hung up on at the first word,
// the log and the troubles name its agent, and nothing comes of it.
func TestRawLeafIsHungUpOn(t *testing.T) {
	forged := []byte("text")
	const violation, parser = "Violation on", "parser ERROR"
	s := siegeOf(t)
	for name, act := range map[string]func(*rawLeaf){
		"a row of another":             func(r *rawLeaf) { r.publishes("fabric.south.up.key", "", forged) },
		"a row for another":            func(r *rawLeaf) { r.publishes("fabric.south.down.key", "", forged) },
		"a row of its own":             func(r *rawLeaf) { r.publishes("fabric.north.up.key", "", forged) },
		"an ask as another":            func(r *rawLeaf) { r.publishes("fabric.south.ask.down", "_INBOX_north.x", forged) },
		"an answer to another's ask":   func(r *rawLeaf) { r.publishes("_INBOX_hub_south.x", "", forged) },
		"another's byte streams":       func(r *rawLeaf) { r.publishes("fabric.south.streams.up", "", forged) },
		"a reply over a gateway":       func(r *rawLeaf) { r.publishes("_GR_.abcdef.abcdef.fabric.south.up.key", "", forged) },
		"flow control":                 func(r *rawLeaf) { r.publishes("$JS.FC.UP_south.x", "", forged) },
		"deletion of a stream":         func(r *rawLeaf) { r.publishes("$JS.API.STREAM.DELETE.UP_south", "_INBOX_north.x", nil) },
		"the same in the hub's domain": func(r *rawLeaf) { r.publishes("$JS.hub.API.STREAM.PURGE.DOWN_south", "_INBOX_north.x", nil) },
		"a question to the system":     func(r *rawLeaf) { r.publishes("$SYS.REQ.SERVER.PING", "_INBOX_north.x", nil) },
		"another's log, heard":         func(r *rawLeaf) { r.says("LS+ fabric.south.down.key\r\n") },
		"another's asks, heard":        func(r *rawLeaf) { r.says("LS+ fabric.south.ask.up\r\n") },
		"a message of 9 MiB":           func(r *rawLeaf) { r.publishes("fabric.north.ask.down", "", make([]byte, 9<<20)) },
		"no protocol":                  func(r *rawLeaf) { r.says("HELLO\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			s.hub.guard.callers.complaints.Forget("north") // or else the log is not told again so soon
			s := &siege{T: t, pki: s.pki, hub: s.hub, address: s.address, south: s.south, honest: s.honest, said: s.said, name: name}
			r := s.raw("evil")
			act(r)
			r.says("PING\r\n")
			require.False(t, r.until("PONG"), "it is not hung up on")
			why := violation
			switch name {
			case "a message of 9 MiB":
				why = "maximum payload exceeded"
			case "no protocol":
				why = parser
			}
			s.blamed(transport.RulesBroken, "an agent breaks the rules", why)
			s.calm()
		})
	}
}

// TestRawLeafWithoutEffect: what the server does not hang up on, since it is how servers speak
// among each other, does nothing, and what is too much is not taken.
func TestRawLeafWithoutEffect(t *testing.T) {
	s := siegeOf(t)
	r := s.raw("evil")
	for _, subject := range []string{
		"_R_.abcdef", "_R_.abcdef.1", "$JS.ACK.UP_south.x.1.1.1.1.1", "$JS.ACK.DOWN_south.x.1.1.1.1.1",
		"$JS.ACK.hub.HUB.UP_south.x.1.1.1.1.1.1",
	} {
		for _, reply := range []string{"", "fabric.south.up.key", "_INBOX_hub_south.x", "$JS.API.STREAM.DELETE.UP_south"} {
			r.publishes(subject, reply, []byte("text"))
		}
	}
	for range 1000 {
		r.publishes("fabric.north.ask.down", "fabric.south.up.key", []byte(`{"hello":{"link":"l","process":"p"},"hold":0}`))
	}
	r.says("PING\r\n")
	require.True(t, r.until("PONG"))
	s.calm()
	for i := range maxSubs + 1 {
		r.says("LS+ _INBOX_north.%d\r\n", i)
	}
	require.True(t, r.until("-ERR 'maximum subscriptions exceeded'"))
	s.blamed(transport.RulesBroken, "an agent breaks the rules", "maximum subscriptions exceeded")
	s.calm()
}

// siegeOf is besiege with the default quota.
func siegeOf(t *testing.T) *siege { return besiege(t, DefaultQuota) }

// TestRawLeafHearsItsOwnOnly: wildcards are no violation, and let nothing through but what is
// the agent's.
func TestRawLeafHearsItsOwnOnly(t *testing.T) {
	s := siegeOf(t)
	r := s.raw("evil")
	for _, subject := range []string{">", "*", "*.*.>", "fabric.*.streams.*", "_R_.>", "$JS.>", "$SYS.>", "_INBOX_hub_south.>"} {
		r.says("LS+ %s\r\n", subject)
	}
	r.says("PING\r\n")
	require.True(t, r.until("PONG"))
	s.calm()
	r.publishes("fabric.north.ask.down", "_INBOX_north.answer", []byte(`{"hello":{"link":"l","process":"p"},"hold":1}`))
	heard, err := r.lines.ReadString('\n')
	for ; err == nil && !strings.Contains(heard, "_INBOX_north.answer"); heard, err = r.lines.ReadString('\n') {
		require.NotContains(t, heard, "south")
	}
	require.NoError(t, err)
	s.calm()
	require.Empty(t, s.hub.Troubles())
}

// TestRawLeavesWithoutEnd: of many connections of one agent few are there at a time.
func TestRawLeavesWithoutEnd(t *testing.T) {
	s := siegeOf(t)
	var all []*rawLeaf
	for i := range 3 * maxCalls {
		all = append(all, s.raw(fmt.Sprint("evil-", i)))
	}
	for _, r := range all[:2*maxCalls] {
		require.False(t, r.until("PONG"), "it is not hung up on")
	}
	s.blamed(transport.RulesBroken, "an agent breaks the rules", "more than 4 connections")
	s.calm()
}

// answers answers the hub's asks, one after the other, by what next returns until that is nil.
func (r *rawLeaf) answers(next func(i int) []byte) error {
	r.says("LS+ fabric.north.ask.up\r\n")
	for i := 0; ; {
		line, err := r.lines.ReadString('\n')
		if err != nil {
			return err
		}
		f := strings.Fields(line)
		switch {
		case len(f) > 0 && f[0] == "PING":
			r.says("PONG\r\n")
		case len(f) > 3 && (f[0] == "LMSG" || f[0] == "HMSG") && f[1] == "fabric.north.ask.up":
			if _, err := r.lines.ReadString('\n'); err != nil { // the ask
				return err
			}
			answer := next(i)
			if answer == nil {
				return nil
			}
			r.publishes(f[2], "", answer)
			i++
		}
	}
}

// flood answers asks without end, until the test ends. All that it says is received.
func (s *siege) flood(next func(i int) []byte) {
	r := s.raw("evil")
	var done sync.WaitGroup
	done.Go(func() {
		for err := error(nil); err == nil; {
			_, err = s.north.Receive(s.Context())
		}
	})
	done.Go(func() { _ = r.answers(next) }) // until it is closed
	s.Cleanup(func() {
		_ = r.Close()
		done.Wait()
	})
}

// batchOf returns an answer of the rows number first to first+n-1, each of a key of its own.
func batchOf(t *testing.T, first, n, size int) []byte {
	a := answer{Hello: hello{Link: "evil", Process: "evil"}, Upto: position{"evil", uint64(first + n)}}
	for i := range n {
		m, err := encode("", value(fmt.Sprintf("key-%d", first+i), strings.Repeat("x", size)))
		require.NoError(t, err)
		a.rows = append(a.rows, row{seq: uint64(first + i + 1), tail: m.Subject, header: m.Header, data: m.Data})
	}
	data, err := a.marshal()
	require.NoError(t, err)
	return data
}

// TestTableThatIsTooLarge: a table without end fills the agent's quota, of bytes or of keys,
// which is its own trouble.
func TestTableThatIsTooLarge(t *testing.T) {
	t.Run("bytes", func(t *testing.T) {
		s := besiege(t, MinQuota)
		var all [][]byte // one more than there is room for
		for i := range 5 {
			all = append(all, batchOf(t, i, 1, transport.MaxMessage))
		}
		s.flood(func(i int) []byte { return all[min(i, len(all)-1)] })
		s.blamed(CopyQuota, "trouble with the store: copy quota")
		s.calm()
		state, err := s.hub.State(t.Context(), "north")
		require.NoError(t, err)
		require.LessOrEqual(t, state.Copy.Bytes, uint64(2*MinQuota))
	})
	t.Run("keys", func(t *testing.T) {
		s := siegeOf(t)
		kept := s.north.(*link).copy.(*stream)
		few := kept.settings(kept.end().Epoch)
		few.MaxMsgs = 2000
		_, err := kept.js.UpdateStream(t.Context(), few)
		require.NoError(t, err)
		s.flood(func(i int) []byte { return batchOf(t, i*batchRows, batchRows, 1) })
		s.blamed(CopyQuota, "trouble with the store: copy quota", "maximum messages exceeded")
		s.calm()
		state, err := s.hub.State(t.Context(), "north")
		require.NoError(t, err)
		require.Equal(t, uint64(2000), state.Copy.Messages)
	})
}

// TestStreamsAreBoundedByKeys: a log and a copy take so many keys, each of which costs the server
// memory.
func TestStreamsAreBoundedByKeys(t *testing.T) {
	_, _, hub, _ := joined(t)
	for of, most := range map[*stream]int64{hub.(*link).log.(*stream): maxRows, hub.(*link).copy.(*stream): 2 * maxRows} {
		found, err := of.js.Stream(t.Context(), of.name)
		require.NoError(t, err)
		require.Equal(t, most, found.CachedInfo().Config.MaxMsgs)
	}
}

// TestAnswersOfManySmallThings: an answer that would take a hundred times its length in memory
// is refused, and the log is told of what is dropped once in a while only.
func TestAnswersOfManySmallThings(t *testing.T) {
	head := appendText(nil, `{"hello":{"link":"l"},"upto":{"epoch":"e","seq":9999999}}`)
	rows := head
	for i := range uint64(1_000_000) {
		rows = append(binary.AppendUvarint(rows, i+1), 0, 0, 0)
	}
	headers := binary.AppendUvarint(append(append([]byte(nil), head...), 1, 0), 1_000_000)
	for i := range 1_000_000 {
		headers = appendText(appendText(headers, fmt.Sprint(i)), "")
	}
	for want, data := range map[string][]byte{
		"more than 512 rows": rows,
		"cut off":            append(headers, 0),
		"head of":            appendText(nil, `{"hello":{"link":"`+strings.Repeat("l", 1<<20)+`"}}`),
	} {
		_, err := unmarshalAnswer(data, ask{}, hello{}, nil)
		require.ErrorContains(t, err, want)
	}
	s := siegeOf(t)
	nonsense := answer{Hello: hello{Link: "evil", Process: "evil"}, Upto: position{"evil", 1 << 40}}
	for i := range batchRows {
		nonsense.rows = append(nonsense.rows, row{seq: uint64(i + 1), tail: "a..b"})
	}
	data, err := nonsense.marshal()
	require.NoError(t, err)
	s.flood(func(i int) []byte {
		if i > 0 {
			return rows
		}
		return data
	})
	s.blamed(transport.RulesBroken, "an agent breaks the rules")
	awaitLine(t, s.said, "cannot follow the peer's log", "more than 512 rows")
	require.Equal(t, uint64(batchRows), s.north.(*link).puller.dropped.Load())
	dropped := 0
	for len(s.said) > 0 {
		if strings.Contains(<-s.said, "dropped what is no message") {
			dropped++
		}
	}
	require.LessOrEqual(t, dropped, 1)
	s.calm()
}

// TestRawLeafThatAsksAndNeverReads: what the hub has for it is bounded, and the other is served.
func TestRawLeafThatAsksAndNeverReads(t *testing.T) {
	s := siegeOf(t)
	for i := range 8 {
		require.NoError(t, s.north.Send(t.Context(), value(fmt.Sprint("key-", i), strings.Repeat("x", 1<<20))))
	}
	r := s.raw("evil")
	r.says("LS+ _INBOX_north.>\r\n")
	before := heapNow()
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	asking.Go(func() {
		for ctx.Err() == nil {
			r.publishes("fabric.north.ask.down", "_INBOX_north.x", []byte(`{"hello":{"link":"l","process":"p"},"hold":1}`))
		}
	})
	for range 5 {
		s.calm()
	}
	require.Less(t, heapNow(), before+256<<20)
	cancel()
	require.NoError(t, r.Close())
	asking.Wait()
}
