package scripts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/rogpeppe/go-internal/testscript"
)

// disk DIR SIZE mounts a disk of that size, such as 2m, at a new folder until the script is
// over. It takes a superuser, see canMount.
func disk(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: disk dir size")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	ts.Check(mount(dir, args[1]))
	ts.Defer(func() { ts.Check(unmount(dir)) })
}

func mount(dir, size string) error {
	output, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "none", dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mount %s: %w: %s", dir, err, output)
	}
	return nil
}

// unmount takes a disk away, also from under programs that use it.
func unmount(dir string) error {
	output, err := exec.Command("umount", "-l", dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("unmount %s: %w: %s", dir, err, output)
	}
	return nil
}

// condition knows [mount]: whether disks can be mounted here.
func condition(name string) (bool, error) {
	if name != "mount" {
		return false, fmt.Errorf("there is no condition %q", name)
	}
	dir, err := os.MkdirTemp("", "disk-")
	if err != nil {
		return false, err
	}
	if err := mount(dir, "64k"); err != nil {
		return false, os.Remove(dir) // it is what was asked
	}
	return true, errors.Join(unmount(dir), os.Remove(dir))
}
