//go:build !linux

package stack

import "syscall"

// attributes puts a child into a process group of its own. It outlives a parent
// that is killed: only Linux can tie the two together.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
