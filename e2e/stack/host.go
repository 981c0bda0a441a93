package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// host finds the programs that come from the operating system and, as root on
// Debian and its kin, installs the missing ones.
func (b *Binaries) host(ctx context.Context, out io.Writer) error {
	names := []string{Redis, "git"}
	missing := b.find(names)
	if len(missing) == 0 {
		return nil
	}
	packages := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("not found on the PATH: %s; install them (Debian: apt-get install %s)",
			strings.Join(missing, ", "), packages)
	}
	lock, err := lockFile(filepath.Join(b.cache, "build.lock"), true)
	if err != nil {
		return err
	}
	defer lock.Close()
	if missing = b.find(names); len(missing) == 0 { // another program installed them meanwhile
		return nil
	}
	start := time.Now()
	fmt.Fprintf(out, "stack: installing %s\n", packages)
	if err := aptInstall(ctx, missing); err != nil {
		return fmt.Errorf("install %s: %w", packages, err)
	}
	if missing = b.find(names); len(missing) > 0 {
		return fmt.Errorf("installed, but not found on the PATH: %s", strings.Join(missing, ", "))
	}
	fmt.Fprintf(out, "stack: installed %s in %.0f s\n", packages, time.Since(start).Seconds())
	return nil
}

// find notes the paths of the named programs and returns the missing ones.
func (b *Binaries) find(names []string) (missing []string) {
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			missing = append(missing, name)
			continue
		}
		b.paths[name] = path
	}
	return missing
}

// aptInstall installs Debian packages without starting their services. The
// package lists are fetched only when the ones at hand do not suffice.
func aptInstall(ctx context.Context, packages []string) error {
	allow, err := denyServices("/usr/sbin/policy-rc.d")
	if err != nil {
		return err
	}
	defer allow()
	install := append([]string{"install", "-y", "-q", "--no-install-recommends"}, packages...)
	if apt(ctx, install...) == nil {
		return nil
	}
	if err := apt(ctx, "update", "-q"); err != nil {
		return err
	}
	return apt(ctx, install...)
}

func apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w: %s", args[0], err, lastLines(string(output), 5))
	}
	return nil
}

// denyServices puts the script in place by which Debian's packages ask whether
// they may start a service, and returns what takes it away. A script that is
// there already stays.
func denyServices(path string) (allow func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString("#!/bin/sh\nexit 101\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return func() { _ = os.Remove(path) }, nil
}
