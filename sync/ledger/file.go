package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// ErrInUse says that another process has the file open.
var ErrInUse = errors.New("another process has it open")

// patience is how long opening waits for another process that has the file open.
const patience = time.Second

// A file is a bbolt database that may fail, be damaged or be taken away at any time: what
// is in it is in memory, too, and is written again when it is another one.
type file struct {
	path string
	db   *bbolt.DB // nil while there is none
	is   os.FileInfo
}

// open opens the file. One that is damaged is put aside, and aside says where.
func (f *file) open() (aside string, err error) {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return "", err
	}
	err = f.try()
	if damaged(err) {
		aside = f.putAside()
		err = f.try()
	}
	return aside, err
}

func (f *file) putAside() string {
	aside := fmt.Sprintf("%s.damaged-%d", f.path, time.Now().Unix())
	_ = os.Rename(f.path, aside) // if that fails so does what comes next
	return aside
}

// abandon gives up a file that was found damaged while it was open. It cannot be closed: the
// fault has left its locks as they were.
func (f *file) abandon() {
	f.db = nil
	f.putAside()
}

// damaged reports whether an error is about what is in the file, and not about its disk.
func damaged(err error) bool {
	var disk syscall.Errno
	return err != nil && !errors.Is(err, ErrInUse) && !errors.As(err, &disk)
}

func (f *file) try() (err error) {
	defer caught(&err)()
	db, err := bbolt.Open(f.path, 0o600, &bbolt.Options{Timeout: patience})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return ErrInUse
	}
	if err != nil {
		return err
	}
	// A damaged page is found only where it is read.
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(_, _ []byte) error { return nil })
		})
	})
	if err == nil {
		f.is, err = os.Stat(f.path)
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	f.db = db
	return nil
}

// caught turns a panic into an error, also the fault of a page that is not there: bbolt maps
// the file into memory, and does not expect it to become shorter or to hold nonsense.
func caught(err *error) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if r := recover(); r != nil {
			*err = fmt.Errorf("it is damaged: %v", r)
		}
	}
}

// same reports whether the file is still the one that was opened.
func (f *file) same() bool {
	found, err := os.Stat(f.path)
	return err == nil && os.SameFile(f.is, found) && found.Size() > 0
}

func (f *file) update(change func(*bbolt.Tx) error) (err error) {
	defer caught(&err)()
	return f.db.Update(change)
}

func (f *file) close() (err error) {
	if f.db == nil {
		return nil
	}
	defer caught(&err)()
	db := f.db
	f.db = nil
	return db.Close()
}
