package natslink

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	ossignal "os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

// A siteUnderTest is one end of a Link whose disk is to fail, and the other end.
type siteUnderTest struct {
	transport.Troubled
	node       *node
	dir        string
	alarms     <-chan string
	link, peer transport.Link
	south      transport.Link // of another agent on the same store, nil if there is none
	log, copy  string         // the names of its streams
}

// sites returns both ends, each with a world of its own. Quota 0 is the default.
func sites(quota int64) map[string]func(t *testing.T) *siteUnderTest {
	return map[string]func(t *testing.T) *siteUnderTest{
		"hub":  func(t *testing.T) *siteUnderTest { return newSite(t, true, t.TempDir(), quota) },
		"leaf": func(t *testing.T) *siteUnderTest { return newSite(t, false, t.TempDir(), quota) },
	}
}

func newSite(t *testing.T, ofHub bool, dir string, quota int64) *siteUnderTest {
	p := tlstest.NewAuthority(t)
	log, alarms := alarms()
	hc, lc := hubConfig(t, p), leafConfig(t, p, "north", "")
	failing := &lc.Common
	if ofHub {
		failing = &hc.Common
	}
	failing.StoreDir, failing.Logger, failing.Quota = dir, log, quota
	h, _ := startHub(t, hc)
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	south, err := h.Link(t.Context(), "south")
	require.NoError(t, err)
	lc.Connect = addr(t, h)
	leaf, err := NewLeaf(lc)
	require.NoError(t, err)
	agent, err := leaf.Dial(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, agent.Close()) })
	awaitEvent(t, hub, transport.Up)
	awaitEvent(t, agent, transport.Up)
	n := names{"north"}
	if ofHub {
		return &siteUnderTest{h, h.node, dir, alarms, hub, agent, south, n.downLog(), n.upCopy()}
	}
	return &siteUnderTest{leaf, leaf.open.node, dir, alarms, agent, hub, nil, n.upLog(), n.downCopy()}
}

// alarms returns a Logger that tells of its lines.
func alarms() (*zap.Logger, <-chan string) {
	all := make(chan string, 1000)
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(lines(all)), zap.InfoLevel)
	return zap.New(core), all
}

// awaitTrouble waits until the log tells that what has begun, and demands that it can be
// asked for.
func (s *siteUnderTest) awaitTrouble(t *testing.T, what string) transport.Trouble {
	t.Helper()
	awaitLine(t, s.alarms, `"trouble with the store: `+what+`"`, s.dir, advice[what])
	for _, trouble := range s.Troubles() {
		if trouble.What == what {
			require.Error(t, trouble.Err)
			require.WithinRange(t, trouble.Since, time.Now().Add(-time.Minute), time.Now())
			return trouble
		}
	}
	require.FailNow(t, "cannot be asked for", "%s in %v", what, s.Troubles())
	return transport.Trouble{}
}

func (s *siteUnderTest) awaitEnd(t *testing.T, what string) {
	t.Helper()
	awaitLine(t, s.alarms, `"trouble with the store has ended: `+what+`"`, s.dir)
}

// settled demands that all troubles have ended, and that both ends are whole: what is sent
// now arrives, either way.
func (s *siteUnderTest) settled(t *testing.T, text string) {
	t.Helper()
	for _, l := range []transport.Link{s.link, s.peer} {
		sendUntil(t, l, value("settled", text))
	}
	await(t, s.link, isValue("settled", text))
	await(t, s.peer, isValue("settled", text))
	for len(s.Troubles()) > 0 {
		awaitLine(t, s.alarms, "has ended")
	}
}

// sendUntil sends m as a session does: again and again until it is taken in.
func sendUntil(t *testing.T, l transport.Link, m transport.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := l.Send(ctx, m)
		if err == nil {
			return
		}
		require.NoError(t, ctx.Err(), "%v", err)
		require.NoError(t, sleep(ctx, 100*time.Millisecond))
	}
}

// childVariable tells a process that it is the child of a test, and of which.
const childVariable = "NATSLINK_TEST_CHILD"

func isChild(t *testing.T) bool { return os.Getenv(childVariable) == t.Name() }

// childOf prepares a process that runs the test that calls it.
func childOf(t *testing.T) *exec.Cmd {
	c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	c.Env = append(os.Environ(), childVariable+"="+t.Name(), "TMPDIR="+t.TempDir())
	return c
}

// apart runs the test that calls it in a process of its own, and reports whether this is that
// process: what limitFiles refuses, it refuses the tests' own log too, which go test reads.
func apart(t *testing.T) bool {
	t.Helper()
	if isChild(t) {
		return true
	}
	out, err := childOf(t).CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	return false
}

// limitFiles has the kernel refuse, with EFBIG, every write of this process beyond size
// bytes of a file, until the function that it returns is called. It works for every user
// and in every container.
func limitFiles(t *testing.T, size uint64) (heal func()) {
	ossignal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	limit := before
	limit.Cur = size
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	heal = func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)) }
	t.Cleanup(func() {
		heal()
		ossignal.Reset(syscall.SIGXFSZ)
	})
	return heal
}

// TestLogThatCannotBeWritten: the disk refuses what is put into a log.
func TestLogThatCannotBeWritten(t *testing.T) {
	if !apart(t) {
		return
	}
	for name, start := range sites(0) {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			text := strings.Repeat("x", 100<<10)
			for i := range 3 {
				require.NoError(t, s.link.Send(t.Context(), value(fmt.Sprintf("key-%d", i), text)))
			}
			heal := limitFiles(t, 350<<10)
			began := time.Now()
			err := s.link.Send(t.Context(), value("key-0", text))
			require.Error(t, err)
			require.NotErrorIs(t, err, transport.ErrClosed)
			require.Less(t, time.Since(began), 20*time.Second)
			trouble := s.awaitTrouble(t, LogFailing)
			require.Equal(t, "north", trouble.Agent)
			if s.south != nil {
				require.NoError(t, s.south.Send(t.Context(), value("key", "of another agent")))
			}
			heal()
			sendUntil(t, s.link, value("key-0", text+"after"))
			s.awaitEnd(t, LogFailing)
			await(t, s.peer, isValue("key-0", text+"after"))
			s.settled(t, "after")
		})
	}
}

// TestCopyThatCannotBeWritten: the disk refuses what the peer says.
func TestCopyThatCannotBeWritten(t *testing.T) {
	if !apart(t) {
		return
	}
	for name, start := range sites(0) {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			text := strings.Repeat("x", 100<<10)
			for i := range 3 {
				require.NoError(t, s.peer.Send(t.Context(), value(fmt.Sprintf("key-%d", i), text)))
				await(t, s.link, isValue(fmt.Sprintf("key-%d", i), text))
			}
			// The peer's log is begun anew, so that its files are smaller than the copy's.
			end := s.peer.(*link)
			require.NoError(t, logOf(end).js.DeleteStream(t.Context(), logOf(end).name))
			await(t, s.peer, func(d transport.Delivery) bool { return d.Event == transport.LogLost })
			heal := limitFiles(t, 350<<10)
			require.NoError(t, s.peer.Send(t.Context(), value("key-0", text+"after")))
			trouble := s.awaitTrouble(t, CopyFailing)
			require.Equal(t, "north", trouble.Agent)
			if s.south != nil {
				require.NoError(t, s.south.Send(t.Context(), value("key", "of another agent")))
			}
			heal()
			await(t, s.link, isValue("key-0", text+"after"))
			s.awaitEnd(t, CopyFailing)
			s.settled(t, "after")
		})
	}
}

// TestFilesThatTakeNothing: no file of a store may be written any more, and then again.
func TestFilesThatTakeNothing(t *testing.T) {
	if !apart(t) {
		return
	}
	for name, start := range sites(0) {
		t.Run(name, func(t *testing.T) { fullFiles(t, start(t)) })
	}
}

// fullFiles fills what files there may be.
func fullFiles(t *testing.T, s *siteUnderTest) {
	text := strings.Repeat("x", 100<<10)
	for i := range 3 {
		require.NoError(t, s.link.Send(t.Context(), value(fmt.Sprintf("key-%d", i), text)))
	}
	heal := limitFiles(t, 2<<10) // not even a probe
	require.Error(t, s.link.Send(t.Context(), value("key-0", text)))
	s.awaitTrouble(t, StoreFailing)
	require.Error(t, s.link.Send(t.Context(), value("key-0", text)))
	heal()
	s.awaitEnd(t, StoreFailing)
	s.settled(t, "after")
}

// TestQuotaOfAnAgent: what a log has no room for is refused, alarmed, and taken once there is.
func TestQuotaOfAnAgent(t *testing.T) {
	for name, start := range sites(1 << 20) {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			text := strings.Repeat("x", 100<<10)
			var err error
			stored := 0
			for ; err == nil; stored++ {
				err = s.link.Send(t.Context(), value(fmt.Sprintf("key-%d", stored), text))
			}
			require.ErrorIs(t, err, transport.ErrFull)
			trouble := s.awaitTrouble(t, LogQuota)
			require.Equal(t, "north", trouble.Agent)
			require.ErrorIs(t, trouble.Err, transport.ErrFull)
			for range 100 {
				require.ErrorIs(t, s.link.Send(t.Context(), value("more", text)), transport.ErrFull)
			}
			require.Empty(t, s.alarms, "the log is flooded")
			require.NoError(t, s.link.Send(t.Context(), value("small", "text")))
			require.Len(t, s.Troubles(), 1)
			if s.south != nil {
				require.NoError(t, s.south.Send(t.Context(), value("key", text)))
			}
			gone := value("key-0", "")
			gone.Digest, gone.Event.DataEncoded = "", nil
			require.NoError(t, s.link.Send(t.Context(), gone))
			s.awaitEnd(t, LogQuota)
			require.NoError(t, s.link.Send(t.Context(), value("more", text)))
			await(t, s.peer, isValue("more", text))
			s.settled(t, "after")
		})
	}
}

// TestCopyHasRoomForWhatItsLogWas: a copy that follows a log which is full, and changes
// all of it, does not get stuck.
func TestCopyHasRoomForWhatItsLogWas(t *testing.T) {
	p := tlstest.NewAuthority(t)
	hc := hubConfig(t, p)
	hc.Quota = 1 << 20
	h, _ := startHub(t, hc)
	hub, err := h.Link(t.Context(), "north")
	require.NoError(t, err)
	var lines tlstest.Lines
	lines.Listen(addr(t, h))
	line := lines.Line(t, "north")
	lc := leafConfig(t, p, "north", line.Addr())
	lc.Quota = hc.Quota
	agent := dial(t, lc)
	text := strings.Repeat("x", 900<<10)
	require.NoError(t, agent.Send(t.Context(), value("first", text)))
	await(t, hub, isValue("first", text))
	line.Set(netfault.Cut)
	awaitEvent(t, agent, transport.Down)
	require.NoError(t, agent.Send(t.Context(), value("first", "little")))
	require.NoError(t, agent.Send(t.Context(), value("second", text)))
	require.NoError(t, agent.Send(t.Context(), value("first", "less")))
	line.Set(netfault.Healthy)
	await(t, hub, isValue("second", text))
	await(t, hub, isValue("first", "less"))
	require.Empty(t, h.Troubles())
}

// TestDirectoriesAreRemoved: somebody removes files under the running program: of a stream,
// of all of them, or all that there is.
func TestDirectoriesAreRemoved(t *testing.T) {
	for name, start := range sites(0) {
		for removed, c := range map[string]struct {
			path  func(s *siteUnderTest) string
			whats []string
		}{
			"log":     {func(s *siteUnderTest) string { return s.node.find(s.log).home }, []string{LogLost}},
			"copy":    {func(s *siteUnderTest) string { return s.node.find(s.copy).home }, []string{CopyLost}},
			"msgs":    {func(s *siteUnderTest) string { return filepath.Join(s.node.find(s.log).home, "msgs") }, []string{LogLost}},
			"streams": {func(s *siteUnderTest) string { return filepath.Join(s.dir, "jetstream") }, []string{LogLost}},
			"all":     {func(s *siteUnderTest) string { return s.dir }, []string{StoreLost}},
		} {
			t.Run(name+"/"+removed, func(t *testing.T) {
				s := start(t)
				require.NoError(t, s.link.Send(t.Context(), value("out", "before")))
				require.NoError(t, s.peer.Send(t.Context(), value("in", "before")))
				await(t, s.peer, isValue("out", "before"))
				await(t, s.link, isValue("in", "before"))
				require.NoError(t, os.RemoveAll(c.path(s)))
				for _, what := range c.whats {
					awaitLine(t, s.alarms, `"trouble with the store: `+what+`"`, s.dir)
					s.awaitEnd(t, what)
				}
				lost, again := removed == "copy", removed == "log" || removed == "msgs"
				await(t, s.link, func(d transport.Delivery) bool { // in any order
					lost = lost || d.Event == transport.LogLost
					again = again || isValue("in", "before")(d) // from the peer's log
					return lost && again
				})
				s.settled(t, "after")
				require.DirExists(t, s.node.find(s.log).home)
				require.DirExists(t, s.node.find(s.copy).home)
			})
		}
	}
}

// TestDirectoryIsReplacedByAFile: the store cannot be made anew until the file is gone.
func TestDirectoryIsReplacedByAFile(t *testing.T) {
	for name, start := range sites(0) {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			require.NoError(t, os.RemoveAll(s.dir))
			require.NoError(t, os.WriteFile(s.dir, nil, 0o600))
			s.awaitTrouble(t, StoreLost)
			require.Error(t, s.link.Send(t.Context(), value("key", "text")))
			require.NoError(t, os.Remove(s.dir))
			s.awaitEnd(t, StoreLost)
			s.settled(t, "after")
		})
	}
}

// TestServerGivesUpItsStore: the server has closed all streams by itself.
func TestServerGivesUpItsStore(t *testing.T) {
	for name, start := range sites(0) {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			require.NoError(t, s.link.Send(t.Context(), value("before", "text")))
			require.NoError(t, s.node.current().ShutdownJetStream())
			// It heals by itself, perhaps before it could be asked for.
			awaitLine(t, s.alarms, `"trouble with the store: `+StoreFailing+`"`, s.dir, advice[StoreFailing])
			s.awaitEnd(t, StoreFailing)
			s.settled(t, "after")
			log, err := s.link.Log(t.Context())
			require.NoError(t, err)
			require.Len(t, log.Rows, 2, "the log is what it was")
		})
	}
}
