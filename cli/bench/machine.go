package bench

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// machine says what this machine is, as far as Linux tells.
func machine() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // what cannot be read is left out
	mem, _ := os.ReadFile("/proc/meminfo")
	return describe(runtime.NumCPU(), string(info), string(mem))
}

func describe(cores int, cpuinfo, meminfo string) string {
	out := fmt.Sprintf("%d cores", cores)
	if model := field(cpuinfo, "model name"); model != "" {
		out += " (" + model
		if mhz := field(cpuinfo, "cpu MHz"); mhz != "" {
			out += ", " + strings.TrimSuffix(mhz, ".000") + " MHz"
		}
		out += ")"
	}
	var k float64
	if _, err := fmt.Sscanf(field(meminfo, "MemTotal"), "%f kB", &k); err == nil {
		out += fmt.Sprintf(", %.0f GiB of memory", k/(1<<20))
	}
	return out + ", " + runtime.GOOS + "/" + runtime.GOARCH + ", " + runtime.Version()
}

// field returns what stands behind a name and a colon in its first line.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// load returns how many processes wanted a processor in the last minute, as text.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	one, _, found := bytes.Cut(text, []byte(" "))
	if err != nil || !found {
		return "unknown"
	}
	return string(one)
}
