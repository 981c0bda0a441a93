// Package examples holds manifests of Applications, to be applied as they are, and to be
// played with by the demonstration.
package examples

import (
	"embed"
	"fmt"
	"path"
)

//go:embed managed autonomous
var files embed.FS

// Managed returns the manifests, in YAML and by name, of Applications that are written on
// the control plane for the managed agent edge-1.
func Managed() (map[string][]byte, error) { return read("managed") }

// Autonomous returns the manifests, in YAML and by name, of Applications that are written
// on the cluster of an autonomous agent.
func Autonomous() (map[string][]byte, error) { return read("autonomous") }

func read(dir string) (map[string][]byte, error) {
	entries, err := files.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("examples: %w", err)
	}
	out := map[string][]byte{}
	for _, e := range entries {
		text, err := files.ReadFile(path.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("examples: %w", err)
		}
		out[e.Name()[:len(e.Name())-len(path.Ext(e.Name()))]] = text
	}
	return out, nil
}
