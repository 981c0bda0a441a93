// Package livefile is about files that are changed while a program follows them: by people,
// and by other programs, which replace them at once.
package livefile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"
)

// A File is followed by a program.
type File[T any] struct {
	Path  string
	Every time.Duration // how often it is looked at; above zero
	// Parse reads a text of the file. Its errors name the file.
	Parse func(text []byte) (T, error)
	Log   *zap.Logger
}

// Read reads the file once.
func (f File[T]) Read() (t T, err error) {
	text, err := os.ReadFile(f.Path)
	if err != nil {
		return t, err
	}
	return f.Parse(text)
}

// Follow calls tell with what is in the file, now and whenever it has changed, until ctx is
// done or tell returns an error. A file that cannot be read at first is an error; later it is
// reported, and what was read before stays in force.
func (f File[T]) Follow(ctx context.Context, tell func(T) error) error {
	text, err := os.ReadFile(f.Path)
	if err != nil {
		return err
	}
	is, err := f.Parse(text)
	if err != nil {
		return err
	}
	if err := tell(is); err != nil {
		return err
	}
	tick := time.NewTicker(f.Every)
	defer tick.Stop()
	complaint := ""
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		next, err := os.ReadFile(f.Path)
		if err == nil && bytes.Equal(next, text) {
			continue
		}
		if err == nil {
			text = next
			is, err = f.Parse(text)
		}
		if err != nil {
			if err.Error() != complaint {
				complaint = err.Error()
				f.Log.Error("a file cannot be read: what was read before stays in force", zap.Error(err))
			}
			continue
		}
		complaint = ""
		if err := tell(is); err != nil {
			return err
		}
	}
}

// Replace puts a text in the place of a file at once: who reads it meanwhile sees the old one
// or the new one.
func Replace(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
