package natslink

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

// TestScenario15_LeafRestartKeepsPublished: what an agent has sent while the line was down
// is not lost when its process is restarted.
func TestScenario15_LeafRestartKeepsPublished(t *testing.T) {
	const events, keys = 1000, 100
	p := tlstest.NewAuthority(t)
	h, _ := startHub(t, hubConfig(t, p))
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	var lines tlstest.Lines
	lines.Listen(addr(t, h))
	line := lines.Line(t, "north")
	c := leafConfig(t, p, "north", line.Addr())
	leaf, err := NewLeaf(c)
	require.NoError(t, err)

	line.Set(netfault.Cut)
	agent, err := leaf.Dial(t.Context())
	require.NoError(t, err)
	last := map[string]string{}
	for i := range events {
		key := fmt.Sprintf("key-%d", i%keys)
		last[key] = fmt.Sprint(i)
		require.NoError(t, agent.Send(t.Context(), value(key, last[key])))
	}
	require.NoError(t, agent.Close())

	counts, err := h.Count(t.Context(), "north")
	require.NoError(t, err)
	defer counts.Stop()
	agent, err = leaf.Dial(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, agent.Close()) }()
	line.Set(netfault.Healthy)
	await(t, hub, func(d transport.Delivery) bool {
		if d.Event == transport.Value && last[d.Message.Key] == string(d.Message.Event.Data()) {
			delete(last, d.Message.Key)
		}
		return len(last) == 0
	})
	require.Equal(t, map[string]int{"test.value": keys}, counts.ByType(), "only last values cross the link")
}

// TestScenario15_UnsafeStreamsAreRefusedOrCorrected: settings by which a stream would lose
// messages are found at start.
func TestScenario15_UnsafeStreamsAreRefusedOrCorrected(t *testing.T) {
	p := tlstest.NewAuthority(t)
	c := leafConfig(t, p, "north", "127.0.0.1:1")
	leaf, err := NewLeaf(c)
	require.NoError(t, err)
	l, err := leaf.Dial(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Send(t.Context(), value("key", "kept")))
	require.NoError(t, l.Close())

	change := func(change func(context.Context, jetstream.JetStream, jetstream.StreamConfig)) {
		l, err := leaf.Dial(t.Context())
		require.NoError(t, err)
		js := logOf(leaf.open.link).js
		s, err := js.Stream(t.Context(), "OUT_north")
		require.NoError(t, err)
		change(t.Context(), js, s.CachedInfo().Config)
		require.NoError(t, l.Close())
	}
	change(func(ctx context.Context, js jetstream.JetStream, s jetstream.StreamConfig) {
		s.MaxMsgs, s.Discard = 1, jetstream.DiscardOld
		_, err := js.UpdateStream(ctx, s)
		require.NoError(t, err)
	})
	l, err = leaf.Dial(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Send(t.Context(), value("other", "kept too")))
	log, err := l.Log(t.Context())
	require.NoError(t, err)
	require.Len(t, log.Rows, 2, "a limit of one message was not corrected")
	require.NoError(t, l.Close())

	change(func(ctx context.Context, js jetstream.JetStream, s jetstream.StreamConfig) {
		require.NoError(t, js.DeleteStream(ctx, s.Name))
		s.Retention = jetstream.InterestPolicy
		_, err := js.CreateStream(ctx, s)
		require.NoError(t, err)
	})
	_, err = leaf.Dial(t.Context())
	require.ErrorIs(t, err, transport.ErrStore)
	require.ErrorContains(t, err, "OUT_north")
	require.ErrorContains(t, err, "Interest")
}

// starters start either end on a directory, and return the error that comes of it.
func starters(t *testing.T) map[string]func(change func(*Common)) error {
	p := tlstest.NewAuthority(t)
	return map[string]func(func(*Common)) error{
		"hub": func(change func(*Common)) error {
			c := hubConfig(t, p)
			change(&c.Common)
			h, err := NewHub(c)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				if _, err := h.Addr(ctx); err == nil {
					cancel() // it runs, though it should not
				}
			}()
			return h.Run(ctx)
		},
		"leaf": func(change func(*Common)) error {
			c := leafConfig(t, p, "north", "127.0.0.1:1")
			change(&c.Common)
			leaf, err := NewLeaf(c)
			require.NoError(t, err)
			l, err := leaf.Dial(t.Context())
			if err == nil {
				err = l.Close()
			}
			return err
		},
	}
}

func TestStoreThatCannotBeUsed(t *testing.T) {
	for name, start := range starters(t) {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "file")
			require.NoError(t, os.WriteFile(file, nil, 0o600))
			err := start(func(c *Common) { c.StoreDir = filepath.Join(file, "store") })
			require.ErrorIs(t, err, transport.ErrStore)
			require.ErrorContains(t, err, file)
			require.NotContains(t, err.Error(), "\n")

			for version, want := range map[string]string{"2": "layout 2", "x": "does not hold a version"} {
				dir := t.TempDir()
				require.NoError(t, os.WriteFile(filepath.Join(dir, layoutFile), []byte(version), 0o600))
				err := start(func(c *Common) { c.StoreDir = dir })
				require.ErrorIs(t, err, transport.ErrStore)
				require.ErrorContains(t, err, dir)
				require.ErrorContains(t, err, want)
				entries, err := os.ReadDir(dir)
				require.NoError(t, err)
				require.Len(t, entries, 1, "something was changed")
			}
		})
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	taken := l.Addr().String()
	for name, start := range starters(t) {
		err := start(func(c *Common) { c.MonitorListen = taken })
		require.ErrorContains(t, err, taken, name)
		require.ErrorContains(t, err, "address already in use", name)
	}
	c := hubConfig(t, tlstest.NewAuthority(t))
	c.Listen = taken
	h, err := NewHub(c)
	require.NoError(t, err)
	require.ErrorContains(t, h.Run(t.Context()), "listen on "+taken)
	_, err = h.Link(t.Context(), "north")
	require.ErrorIs(t, err, transport.ErrClosed)
}

func TestQuota(t *testing.T) {
	p := tlstest.NewAuthority(t)
	c := leafConfig(t, p, "north", "127.0.0.1:1")
	c.Quota = 1 << 20
	l := dial(t, c)
	var err error
	text := strings.Repeat("x", 100<<10)
	stored := 0
	for ; err == nil && stored < 100; stored++ {
		err = l.Send(t.Context(), value(fmt.Sprintf("key-%d", stored), text))
	}
	require.ErrorIs(t, err, transport.ErrFull)
	require.Greater(t, stored, 5)

	log, err := l.Log(t.Context())
	require.NoError(t, err)
	require.Len(t, log.Rows, stored-1, "nothing was pushed out")
	gone := value("key-0", "")
	gone.Digest, gone.Event.DataEncoded = "", nil
	require.NoError(t, l.Send(t.Context(), gone), "what takes less is taken")
	require.NoError(t, l.Send(t.Context(), value("key-0", text[:50<<10])))
}

func TestConfigIsChecked(t *testing.T) {
	p := tlstest.NewAuthority(t)
	for want, change := range map[string]func(*HubConfig){
		"store directory": func(c *HubConfig) { c.StoreDir = "" },
		"logger":          func(c *HubConfig) { c.Logger = nil },
		"quota":           func(c *HubConfig) { c.Quota = -1 },
		"tombstones":      func(c *HubConfig) { c.Age = 1 },
		"heartbeat":       func(c *HubConfig) { c.Heartbeat = 1 },
		"not a loopback":  func(c *HubConfig) { c.MonitorListen = "0.0.0.0:1" },
		"credentials":     func(c *HubConfig) { c.Credentials = nil },
		"authentication":  func(c *HubConfig) { c.Authenticate = nil },
		"missing port":    func(c *HubConfig) { c.Listen = "127.0.0.1" },
		"has no port":     func(c *HubConfig) { c.Listen = "127.0.0.1:x" },
	} {
		c := hubConfig(t, p)
		change(&c)
		_, err := NewHub(c)
		require.ErrorContains(t, err, want)
	}
	for want, change := range map[string]func(*LeafConfig){
		"store directory": func(c *LeafConfig) { c.StoreDir = "" },
		"reserved":        func(c *LeafConfig) { c.Agent = "default" },
		"missing port":    func(c *LeafConfig) { c.Connect = "hub.example" },
		"credentials":     func(c *LeafConfig) { c.Credentials = nil },
	} {
		c := leafConfig(t, p, "north", "127.0.0.1:1")
		change(&c)
		_, err := NewLeaf(c)
		require.ErrorContains(t, err, want)
	}
}

// TestPurgedStreamsAreBegunAnew: a stream that an operator has emptied is noticed without
// any word of the server.
func TestPurgedStreamsAreBegunAnew(t *testing.T) {
	p := tlstest.NewAuthority(t)
	h, _ := startHub(t, hubConfig(t, p))
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	leaf, err := NewLeaf(leafConfig(t, p, "north", addr(t, h)))
	require.NoError(t, err)
	agent, err := leaf.Dial(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, agent.Close()) }()
	require.NoError(t, agent.Send(t.Context(), value("key", "first")))
	await(t, hub, isValue("key", "first"))
	before, err := agent.Log(t.Context())
	require.NoError(t, err)

	purge := func(js jetstream.JetStream, stream string) {
		s, err := js.Stream(t.Context(), stream)
		require.NoError(t, err)
		require.NoError(t, s.Purge(t.Context()))
	}
	purge(h.store("north"), "UP_north")
	await(t, hub, isValue("key", "first"))

	purge(logOf(leaf.open.link).js, "OUT_north")
	await(t, agent, func(d transport.Delivery) bool { return d.Event == transport.LogLost })
	after, err := agent.Log(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, before.Epoch, after.Epoch)
	require.Empty(t, after.Rows)
	require.NoError(t, agent.Send(t.Context(), value("key", "second")))
	await(t, hub, isValue("key", "second"))
}

func TestDiskIsNotFilledUp(t *testing.T) {
	dir := t.TempDir()
	var disk space
	require.NoError(t, disk.room(dir, 1, time.Now()))
	err := disk.room(dir, math.MaxInt, time.Now())
	require.ErrorIs(t, err, transport.ErrFull)
	require.ErrorContains(t, err, dir)
	require.Error(t, (&space{}).room(filepath.Join(dir, "gone"), 1, time.Now()))
}

func TestFullServerIsTold(t *testing.T) {
	for _, code := range []jetstream.ErrorCode{10023, 10047, 10077} {
		err := storeError(fmt.Errorf("wrapped: %w", &jetstream.APIError{ErrorCode: code}))
		require.ErrorIs(t, err, transport.ErrFull)
	}
	other := &jetstream.APIError{ErrorCode: 10059}
	require.NotErrorIs(t, storeError(other), transport.ErrFull)
	require.True(t, errors.Is(storeError(other), other))
}

// TestStoreIsOneProcessOnly: a second server on one store would destroy it.
func TestStoreIsOneProcessOnly(t *testing.T) {
	p := tlstest.NewAuthority(t)
	h, _ := startHub(t, hubConfig(t, p))
	c := leafConfig(t, p, "north", addr(t, h))
	first, err := NewLeaf(c)
	require.NoError(t, err)
	agent, err := first.Dial(t.Context())
	require.NoError(t, err)
	second, err := NewLeaf(c)
	require.NoError(t, err)
	_, err = second.Dial(t.Context())
	require.ErrorIs(t, err, transport.ErrStore)
	require.ErrorContains(t, err, "another process uses it")
	require.NoError(t, agent.Close())
	agent, err = second.Dial(t.Context())
	require.NoError(t, err)
	require.NoError(t, agent.Close())
}

// TestHalfWrittenLayout: a disk that was full when the directory was first used does not
// spoil it.
func TestHalfWrittenLayout(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, layoutFile)
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, prepareDir(dir))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "1\n", string(text))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}
