package stack

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// errLocked says that another holder has the lock.
var errLocked = errors.New("locked")

// lockFile takes the lock that the file path stands for, and creates the file
// when it is missing. With wait it blocks until the lock is free, without it
// reports errLocked. Closing the returned file, or the end of the process,
// releases the lock.
func lockFile(path string, wait bool) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		switch {
		case err == nil:
			return f, nil
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			err = errLocked
		}
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
}
