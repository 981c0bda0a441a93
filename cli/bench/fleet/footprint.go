package fleet

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// A Footprint is what a process takes after its garbage was collected.
type Footprint struct {
	Heap       uint64        `json:"heap"`     // bytes that are live
	Resident   uint64        `json:"resident"` // bytes of memory in all, its code too
	Own        uint64        `json:"own"`      // those of them that no file backs
	Goroutines int           `json:"goroutines"`
	CPU        time.Duration `json:"cpu"` // that it has used
}

// Look returns the Footprint of this process, on Linux.
func Look() (f Footprint, err error) {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.Heap, f.Goroutines = m.HeapAlloc, runtime.NumGoroutine()
	if f.CPU, err = CPU(); err != nil {
		return f, err
	}
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return f, fmt.Errorf("fleet: look at memory: %w", err)
	}
	f.Resident, f.Own = kib(text, "VmRSS:"), kib(text, "RssAnon:")
	return f, nil
}

// kib returns what a line of KiB says, in bytes.
func kib(text []byte, name string) uint64 {
	_, rest, _ := bytes.Cut(text, []byte(name))
	fields := bytes.Fields(rest[:min(len(rest), 64)])
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.ParseUint(string(fields[0]), 10, 64)
	return n << 10
}

// CPU returns what this process has used of the processors, on Linux.
func CPU() (time.Duration, error) {
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, fmt.Errorf("fleet: look at processor time: %w", err)
	}
	return ticks(string(text))
}

// ticks reads the times of user and system from a line of stat, which are in hundredths of a
// second. The name of the program stands before them in brackets, and may hold anything.
func ticks(line string) (time.Duration, error) {
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("fleet: read processor time: %d fields", len(fields))
	}
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, fmt.Errorf("fleet: read processor time: %w", err)
	}
	system, err := strconv.Atoi(fields[12])
	if err != nil {
		return 0, fmt.Errorf("fleet: read processor time: %w", err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond, nil
}
