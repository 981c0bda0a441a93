package grpclink

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/argocd-fabric/argocd-agent/transport/grpclink/linkpb"
)

func TestADoorSpreadsWhomItSendsAway(t *testing.T) {
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	d := door{each: 10 * time.Millisecond, burst: 3}
	for range 3 {
		require.Zero(t, d.admit(now))
	}
	require.Equal(t, 10*time.Millisecond, d.admit(now))
	require.Equal(t, 20*time.Millisecond, d.admit(now))
	require.Equal(t, 30*time.Millisecond, d.admit(now))
	for i := 1; i <= 3; i++ { // who comes when told is let in
		require.Zero(t, d.admit(now.Add(time.Duration(i)*10*time.Millisecond)))
	}
	later := now.Add(time.Hour)
	for range 3 {
		require.Zero(t, d.admit(later))
	}
	require.Equal(t, 10*time.Millisecond, d.admit(later))
}

func TestPausesGrow(t *testing.T) {
	most := func(d time.Duration) time.Duration { return d }
	p := pauses{least: 100 * time.Millisecond, most: time.Second, random: most}
	failed := errors.New("no connection")
	for _, want := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		require.Equal(t, want*time.Millisecond, p.next(failed, 0))
	}
	require.Equal(t, 100*time.Millisecond, p.next(failed, time.Minute), "it had been connected")
	require.Equal(t, 5*time.Second+1, p.next(crowded(4*time.Second), 0))
	require.Equal(t, maxRetryAfter, min(p.next(crowded(24*time.Hour), 0), maxRetryAfter))
	require.Equal(t, 200*time.Millisecond, p.next(failed, 0))

	rival := status.Error(codes.Aborted, "another")
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		require.Equal(t, want*time.Second*3/2, p.next(rival, 0))
	}
	require.Equal(t, 1500*time.Millisecond, p.next(rival, time.Hour))
}

func TestATellerTellsOnce(t *testing.T) {
	now := time.Now()
	var l teller
	require.True(t, l.news("a", now))
	require.True(t, l.news("b", now))
	require.False(t, l.news("a", now.Add(tellAgain-1)))
	require.True(t, l.news("a", now.Add(tellAgain)))
}

func TestPacketsAreCompressedWhereItPays(t *testing.T) {
	s, err := newSqueezer()
	require.NoError(t, err)
	text := bytes.Repeat([]byte("the same again and again, "), 100)
	for _, c := range []struct {
		frames   []byte
		compress bool
		size     int // at most
	}{{text, true, len(text) / 10}, {text, false, len(text) + 10}, {text[:50], true, 60}, {nil, true, 0}} {
		p := s.packet(c.frames, c.compress)
		require.LessOrEqual(t, proto.Size(p), c.size)
		got, err := s.open(p)
		require.NoError(t, err)
		require.Equal(t, c.frames, got)
	}
	bomb := s.packet(make([]byte, maxPacket+1), true)
	_, err = s.open(bomb)
	require.Error(t, err)
	_, err = s.open(&linkpb.Packet{Of: &linkpb.Packet_Hello{}})
	require.Error(t, err)
}

// FuzzPacket has a peer send any packet.
func FuzzPacket(f *testing.F) {
	s, err := newSqueezer()
	require.NoError(f, err)
	for _, p := range []*linkpb.Packet{{}, s.packet([]byte("frames"), false), s.packet(make([]byte, 1000), true), {Of: &linkpb.Packet_Hello{Hello: helloOf(quick(f).Presence, "session")}}} {
		text, err := proto.Marshal(p)
		require.NoError(f, err)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var p linkpb.Packet
		if proto.Unmarshal(text, &p) != nil {
			return
		}
		frames, err := s.open(&p)
		if err == nil {
			require.LessOrEqual(t, len(frames), max(maxPacket, len(text)))
		}
		_ = presenceOf(p.GetHello())
	})
}
