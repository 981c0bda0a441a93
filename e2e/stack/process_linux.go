package stack

import "syscall"

// attributes puts a child into a process group of its own and lets it die with
// the thread that starts it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
