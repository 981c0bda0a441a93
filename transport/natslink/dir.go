package natslink

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// layout is the version of what is in a store directory. A program refuses one that a
// newer program has written.
const layout = 1

const (
	layoutFile = "VERSION"
	lockFile   = "LOCK"
)

// prepareDir makes sure that dir can be written to and is of a layout that is
// understood. If not it returns ErrStore, and has changed nothing.
func prepareDir(dir string) error {
	fail := func(err error) error {
		return fmt.Errorf("natslink: store directory %s: %w: %w", dir, transport.ErrStore, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(err)
	}
	file := filepath.Join(dir, layoutFile)
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(text) == 0:
		if err := writeLayout(file); err != nil {
			return fail(err)
		}
		return nil
	case err != nil:
		return fail(err)
	}
	found, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fail(fmt.Errorf("%s does not hold a version: %.20q", layoutFile, text))
	}
	if found > layout {
		return fail(fmt.Errorf("it has layout %d, and this program knows up to %d", found, layout))
	}
	if err := probe(dir); err != nil && !errors.Is(err, syscall.ENOSPC) { // a full disk may get room
		return fail(err)
	}
	return nil
}

// writeLayout writes the file whole or not at all, also on a full disk. An empty one was
// left by a program that did not.
func writeLayout(file string) error {
	part := file + ".part"
	err := os.WriteFile(part, []byte(strconv.Itoa(layout)+"\n"), 0o600)
	if err == nil {
		err = os.Rename(part, file)
	}
	if err != nil {
		_ = os.Remove(part) // what matters is why it was not written
	}
	return err
}

// probe makes sure that files can be made in dir and written to, which would fail later
// otherwise, and with a message that says less.
func probe(dir string) error {
	f, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, probeSize))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

const probeSize = 4 << 10

// lockDir makes dir this process's own until the file that it returns is closed, or the
// process ends, however it does. Two servers on one store would destroy it.
func lockDir(dir string) (*os.File, error) {
	fail := func(err error) (*os.File, error) {
		return nil, fmt.Errorf("natslink: store directory %s: %w: %w", dir, transport.ErrStore, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fail(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written to it
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errors.New("another process uses it")
		}
		return fail(err)
	}
	return f, nil
}

// Discard removes all messages that are kept in a store directory, which no process may use.
func Discard(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer lock.Close() // nothing was written to it
	if err := os.RemoveAll(filepath.Join(dir, server.JetStreamStoreDir)); err != nil {
		return fmt.Errorf("natslink: remove what is kept: %w", err)
	}
	return nil
}

// errLost says that a store directory is gone, or is another than the one that is in use.
var errLost = errors.New("the directory was removed or replaced")

// lost returns errLost unless the store directory is the one that was locked.
func (n *node) lost() error {
	lock := n.locked()
	if lock == nil {
		return errLost
	}
	ours, err := lock.Stat()
	if err != nil {
		return err
	}
	found, err := os.Stat(filepath.Join(n.options.StoreDir, lockFile))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), err == nil && !os.SameFile(ours, found):
		return errLost
	}
	return err
}

// space notes whether there is room on the disk.
func (n *node) space() {
	full := origin{what: StoreFull}
	if err := n.disk.room(n.options.StoreDir, 0, time.Now()); errors.Is(err, transport.ErrFull) {
		n.troubles.begin(full, err)
	} else if n.store.usable() == nil {
		n.troubles.end(full)
	}
}

// reserve is what is left free on the disk. The server takes no more messages, not even
// smaller ones and not before it is restarted, once it has failed to write one.
const reserve = 32 << 20

// A space knows whether there is room on a disk. One that has plenty is not asked for each message.
type space struct {
	plenty atomic.Int64 // until when there is, in Unix nanoseconds
}

// Of how much free space, beyond what must stay free, nothing that anybody writes takes all before it is
// looked at again.
const (
	ample    = 4 << 30
	ampleFor = 100 * time.Millisecond
)

// room returns ErrFull if a message of size bytes would leave too little free space in dir.
func (s *space) room(dir string, size int, now time.Time) error {
	if size < ample && now.UnixNano() < s.plenty.Load() {
		return nil
	}
	free, err := freeSpace(dir)
	if err != nil {
		return fmt.Errorf("natslink: free space of %s: %w", dir, err)
	}
	if free < reserve+uint64(size) {
		return fmt.Errorf("%w: %d MiB are free in %s, and %d must be", transport.ErrFull, free>>20, dir, reserve>>20)
	}
	if free > reserve+ample {
		s.plenty.Store(now.Add(ampleFor).UnixNano())
	}
	return nil
}
