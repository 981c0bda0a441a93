package filelink

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func adapter() linktest.Adapter {
	return linktest.Adapter{
		Traits: linktest.Traits{Kept: map[linktest.Store]bool{linktest.HubLog: true, linktest.AgentLog: true}},
		Within: linktest.Plainly,
		New: func(t *testing.T) linktest.Network {
			n := &network{dir: t.TempDir(), lines: map[string]func(){}}
			t.Cleanup(func() {
				for _, end := range n.lines {
					end()
				}
			})
			return n
		},
	}
}

// TestLink runs the project's suite of every transport.
func TestLink(t *testing.T) { linktest.Run(t, adapter()) }

// TestConns runs the suite of every net.Conn.
func TestConns(t *testing.T) { linktest.RunConns(t, adapter()) }

var presence = transport.Presence{Version: "v0.0.0-test", Oldest: 1, Newest: 1}

// A network has the folders of all in one, and mounts, which are symbolic links.
type network struct {
	dir     string
	lines   map[string]func() // how what makes the line of an agent what it is ends
	stop    context.CancelFunc
	stopped chan error
}

func (n *network) hub() string                { return filepath.Join(n.dir, "hub") }
func (n *network) hubOf(agent string) string  { return filepath.Join(n.hub(), agent) }
func (n *network) folder(agent string) string { return filepath.Join(n.dir, "agents", agent) }

func (n *network) StartHub(testing.TB) transport.Hub {
	ctx, cancel := context.WithCancel(context.Background())
	h := NewHub(n.hub(), presence)
	n.stop, n.stopped = cancel, make(chan error, 1)
	go func() { n.stopped <- h.Run(ctx) }()
	return h
}

func (n *network) StopHub(t testing.TB) {
	n.stop()
	if err := <-n.stopped; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func (n *network) StartAgent(t testing.TB, agent string) transport.Dialer {
	if n.lines[agent] == nil {
		n.Fault(t, agent, linktest.Healthy)
	}
	return NewDialer(n.folder(agent), agent, presence)
}

func (n *network) Fault(t testing.TB, agent string, f linktest.Fault) {
	if end := n.lines[agent]; end != nil {
		end()
	}
	n.lines[agent] = func() {}
	hub, folder := n.hubOf(agent), n.folder(agent)
	for reader, writer := range map[string]string{hub: folder, folder: hub} {
		require.NoError(t, os.MkdirAll(reader, 0o700))
		mount := filepath.Join(reader, "peer")
		switch f {
		case linktest.Healthy:
			point(t, mount, writer)
		case linktest.Cut:
			point(t, mount, filepath.Join(n.dir, "nowhere"))
		case linktest.BlackHole: // what was there is still to be seen
			old := t.TempDir()
			copyFolder(writer, old)
			point(t, mount, old)
		case linktest.Slow:
			end := n.lines[agent]
			stop := slowly(t, writer, mount)
			n.lines[agent] = func() { end(); stop() }
		}
	}
}

// point has a mount show a folder, from one moment to the next.
func point(t testing.TB, mount, folder string) {
	require.NoError(t, os.RemoveAll(mount+".new"))
	require.NoError(t, os.Symlink(folder, mount+".new"))
	require.NoError(t, os.Rename(mount+".new", mount))
}

// copyFolder copies files; those that vanish meanwhile are left out.
func copyFolder(from, to string) {
	files, _ := filepath.Glob(filepath.Join(from, "*"))
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			_ = replace(filepath.Join(to, filepath.Base(file)), text)
		}
	}
}

// slowly has a mount show what a folder was 20 ms ago, or a little more, until it is stopped.
func slowly(t testing.TB, folder, mount string) (stop func()) {
	old := t.TempDir()
	copyFolder(folder, old)
	point(t, mount, old)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				copyFolder(folder, old)
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

func (n *network) Wipe(t testing.TB, agent string, s linktest.Store) {
	log := map[linktest.Store]string{linktest.HubLog: n.hubOf(agent), linktest.AgentLog: n.folder(agent)}[s]
	require.NoError(t, os.Remove(filepath.Join(log, "log")))
}
