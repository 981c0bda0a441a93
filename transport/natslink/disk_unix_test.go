//go:build linux

package natslink

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// inChild runs the test that calls it in a process of its own, with attr and without the
// root's right to write where modes say no, and reports whether this is that process. The
// parent learns whether it could be started at all, and fails if the test fails in it.
func inChild(t *testing.T, attr *syscall.SysProcAttr) (child bool, err error) {
	if isChild(t) {
		return true, nil
	}
	c := childOf(t)
	c.SysProcAttr = attr
	var out []byte
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		for _, capability := range []uintptr{dacOverride, dacReadSearch} {
			// It fails for who is not root, and has no such right.
			_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, dropBound, capability, 0)
		}
		out, err = c.CombinedOutput()
	}()
	<-done
	var exit *exec.ExitError
	if errors.As(err, &exit) && !strings.Contains(string(out), cannotMount) {
		require.NoErrorf(t, err, "%s", out)
	}
	return false, err
}

// From linux/prctl.h and linux/capability.h.
const (
	dropBound     = 24
	dacOverride   = 1
	dacReadSearch = 2
)

// cannotMount is what a child says that may not mount.
const cannotMount = "cannot mount a file system"

// TestFullDisk: the file system of a store is full, and gets room again. It is a tmpfs of
// 48 MiB where a process may have mounts of its own; where it may not, as in most containers,
// TestFilesThatTakeNothing stands for it.
func TestFullDisk(t *testing.T) {
	id := func(n int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: n, Size: 1}} }
	child, err := inChild(t, &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: id(os.Getuid()), GidMappings: id(os.Getgid()),
	})
	switch {
	case child:
		for name, ofHub := range map[string]bool{"hub": true, "leaf": false} {
			t.Run(name+"/nearly", func(t *testing.T) { nearlyFullDisk(t, ofHub) })
			t.Run(name+"/wholly", func(t *testing.T) { whollyFullDisk(t, ofHub) })
		}
	case err != nil:
		t.Logf("no mounts here (%v): shown by a limit on the size of files", err)
	default:
		t.Log("shown on a tmpfs")
	}
}

// newDisk returns a new file system, and a site whose store is on it.
func newDisk(t *testing.T, ofHub bool) (dir string, s *siteUnderTest) {
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=48m"); err != nil {
		t.Fatal(cannotMount, err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir, newSite(t, ofHub, filepath.Join(dir, "store"), 0)
}

// nearlyFullDisk: nothing is taken in that would leave less than the reserve.
func nearlyFullDisk(t *testing.T, ofHub bool) {
	dir, s := newDisk(t, ofHub)
	text := strings.Repeat("x", 100<<10)
	require.NoError(t, s.link.Send(t.Context(), value("key", "before")))
	filler := filepath.Join(dir, "filler")
	fill(t, filler, reserve-1<<20)
	s.awaitTrouble(t, StoreFull)
	require.ErrorIs(t, s.link.Send(t.Context(), value("key", text)), transport.ErrFull)
	require.NoError(t, s.peer.Send(t.Context(), value("waits", text)))
	require.NoError(t, os.Remove(filler))
	s.awaitEnd(t, StoreFull)
	require.NoError(t, s.link.Send(t.Context(), value("key", text)))
	await(t, s.peer, isValue("key", text))
	await(t, s.link, isValue("waits", text))
	s.settled(t, "after")
}

// whollyFullDisk: others have taken the last byte, and the server fails to write.
func whollyFullDisk(t *testing.T, ofHub bool) {
	dir, s := newDisk(t, ofHub)
	text := strings.Repeat("x", 100<<10)
	require.NoError(t, s.link.Send(t.Context(), value("key", "before")))
	filler := filepath.Join(dir, "filler")
	fill(t, filler, 0)
	s.awaitTrouble(t, StoreFull)
	end := s.link.(*link)
	m, err := encode(end.sent, value("key", text))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err = logOf(end).js.PublishMsg(ctx, m)
	require.Error(t, err)
	require.ErrorIs(t, s.link.Send(t.Context(), value("key", text)), transport.ErrFull)
	log, err := s.link.Log(t.Context())
	require.NoError(t, err)
	require.Equal(t, value("key", "before").Digest, log.Rows["key"].Digest, "half of a message is kept")
	require.NoError(t, os.Remove(filler))
	awaitLine(t, s.alarms, "opening the store again")
	sendUntil(t, s.link, value("key", text+"after"))
	await(t, s.peer, isValue("key", text+"after"))
	s.settled(t, "after")
}

// fill makes a file so large that only left bytes are free.
func fill(t *testing.T, file string, left uint64) {
	free, err := freeSpace(filepath.Dir(file))
	require.NoError(t, err)
	require.Greater(t, free, left)
	require.NoError(t, os.WriteFile(file, make([]byte, free-left), 0o600))
}

// TestReadOnlyStore: the program may not write any more, at which the server of NATS gives
// up all streams.
func TestReadOnlyStore(t *testing.T) {
	child, err := inChild(t, nil)
	require.NoError(t, err)
	if !child {
		return
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o500))
	require.ErrorIs(t, probe(dir), syscall.EACCES, "modes do not hold here")
	for name, start := range sites(1 << 20) { // whose streams often begin new files
		t.Run(name+"/store", func(t *testing.T) { readOnlyStore(t, start(t)) })
		t.Run(name+"/stream", func(t *testing.T) { readOnlyStream(t, start(t)) })
	}
}

func chmod(t *testing.T, mode os.FileMode, dirs ...string) {
	for _, dir := range dirs {
		require.NoError(t, os.Chmod(dir, mode))
	}
}

// sendUntilRefused sends until the server must have begun a new file.
func sendUntilRefused(t *testing.T, l transport.Link) {
	var err error
	for i := 0; err == nil; i++ {
		err = l.Send(t.Context(), value("key", strings.Repeat("x", 100<<10)+fmt.Sprint(i)))
	}
	require.NotErrorIs(t, err, transport.ErrFull)
}

func readOnlyStore(t *testing.T, s *siteUnderTest) {
	msgs := filepath.Join(s.node.find(s.log).home, "msgs")
	chmod(t, 0o500, s.dir, msgs)
	sendUntilRefused(t, s.link)
	s.awaitTrouble(t, StoreReadOnly)
	require.Error(t, s.link.Send(t.Context(), value("key", "text")))
	chmod(t, 0o700, s.dir, msgs)
	s.awaitEnd(t, StoreReadOnly)
	sendUntil(t, s.link, value("key", "after"))
	await(t, s.peer, isValue("key", "after"))
	s.settled(t, "after")
}

func readOnlyStream(t *testing.T, s *siteUnderTest) {
	msgs := filepath.Join(s.node.find(s.log).home, "msgs")
	chmod(t, 0o500, msgs)
	sendUntilRefused(t, s.link)
	trouble := s.awaitTrouble(t, LogReadOnly)
	require.Equal(t, "north", trouble.Agent)
	if s.south != nil {
		sendUntil(t, s.south, value("key", "of another agent"))
	}
	require.Error(t, s.link.Send(t.Context(), value("key", "text")))
	chmod(t, 0o700, msgs)
	sendUntil(t, s.link, value("key", "after all"))
	s.awaitEnd(t, LogReadOnly)
	await(t, s.peer, isValue("key", "after all"))
	s.settled(t, "after all")
}
