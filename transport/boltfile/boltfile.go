// Package boltfile opens bbolt files, also those that a full disk has left half begun.
package boltfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Open opens the file, and begins it if it is not there. For another process that has it open
// it waits as long as it is told to.
//
// Bbolt begins a file with four pages. Where the disk has had no room for all of them it takes
// what it finds the next time for damaged, and so it would for ever, although nothing was ever
// in it: such a file is begun anew.
func Open(path string, patience time.Duration) (*bbolt.DB, error) {
	if err := blank(path); err != nil {
		return nil, err
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: patience})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("another process has it open")
	}
	return db, err
}

// Of a file of bbolt's: how many pages it begins with, and where, and what, its mark is.
const (
	begun  = 4
	markAt = 16
	mark   = 0xED0CDAED
)

// blank empties a file that was not begun whole.
func blank(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() // and with it its lock
	is, err := f.Stat()
	if err != nil || is.Size() >= int64(begun*os.Getpagesize()) {
		return err
	}
	var found [4]byte
	if _, err := f.ReadAt(found[:], markAt); errors.Is(err, io.EOF) || binary.NativeEndian.Uint32(found[:]) != mark {
		return nil // it is empty, or no file of bbolt's
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return nil // another process begins it now
	}
	return f.Truncate(0)
}
