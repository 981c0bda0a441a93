//go:build unix

package natslink

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
)

// freeSpace returns how many bytes may be written below dir.
func freeSpace(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return uint64(s.Bavail) * uint64(s.Bsize), nil
}

// Capacity returns how many bytes the file system has that dir is on, or will be.
func Capacity(dir string) (uint64, error) {
	for {
		var s syscall.Statfs_t
		err := syscall.Statfs(dir, &s)
		if err == nil {
			return s.Blocks * uint64(s.Bsize), nil
		}
		parent := filepath.Dir(dir)
		if !errors.Is(err, syscall.ENOENT) || parent == dir {
			return 0, fmt.Errorf("natslink: file system of %s: %w", dir, err)
		}
		dir = parent
	}
}
