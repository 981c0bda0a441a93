// Package agentsfile is a registry of agents in a YAML file, for hubs that have no
// cluster to keep it:
//
//	agents:
//	- name: edge-1
//	  mode: managed
//	- name: edge-2
//	  mode: autonomous
package agentsfile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"
	"sigs.k8s.io/yaml"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// A Registry is a backend.Registry that follows a file.
type Registry struct {
	Path string
	Poll time.Duration // how often the file is looked at; above zero
	Log  *zap.Logger
}

// Watch implements backend.Registry. A file that cannot be read at first is an error;
// later it is reported, and what was read before stays in force.
func (r Registry) Watch(ctx context.Context, f func([]backend.Agent) error) error {
	text, err := os.ReadFile(r.Path)
	if err != nil {
		return fmt.Errorf("agentsfile: %w", err)
	}
	agents, err := parse(r.Path, text)
	if err != nil {
		return err
	}
	if err := f(agents); err != nil {
		return err
	}
	tick := time.NewTicker(r.Poll)
	defer tick.Stop()
	complaint := ""
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		next, err := os.ReadFile(r.Path)
		if err == nil && bytes.Equal(next, text) {
			continue
		}
		if err == nil {
			text = next
			agents, err = parse(r.Path, text)
		}
		if err != nil {
			if err.Error() != complaint {
				complaint = err.Error()
				r.Log.Error("agents file not read, what was read before stays in force", zap.Error(err))
			}
			continue
		}
		complaint = ""
		if err := f(agents); err != nil {
			return err
		}
	}
}

// Read returns the agents in a file, sorted by name.
func Read(path string) ([]backend.Agent, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("agentsfile: %w", err)
	}
	return parse(path, text)
}

// Add adds an agent to a file, which is made if there is none. One of that name that is
// there already is fs.ErrExist.
func Add(path string, a backend.Agent) error {
	agents, err := Read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if slices.ContainsFunc(agents, func(b backend.Agent) bool { return a.Name == b.Name }) {
		return fmt.Errorf("agentsfile: %s has an agent %s already: %w", path, a.Name, fs.ErrExist)
	}
	text, err := format(append(agents, a))
	if err == nil {
		_, err = parse(path, text)
	}
	if err != nil {
		return err
	}
	return replace(path, text)
}

// An entry is an agent in the file.
type entry struct {
	Name string `json:"name"`
	Mode string `json:"mode"`
}

type file struct {
	Agents []entry `json:"agents"`
}

func parse(path string, text []byte) ([]backend.Agent, error) {
	var f file
	if err := yaml.UnmarshalStrict(text, &f); err != nil {
		return nil, fmt.Errorf("agentsfile: read %s: %w", path, err)
	}
	if f.Agents == nil { // as while it is being written: no word that there are none
		return nil, fmt.Errorf("agentsfile: read %s: there is no list of agents; write \"agents: []\" if there are none", path)
	}
	agents := make([]backend.Agent, 0, len(f.Agents))
	for _, e := range f.Agents {
		if err := identity.CheckName(e.Name); err != nil {
			return nil, fmt.Errorf("agentsfile: read %s: %w", path, err)
		}
		mode, ok := resource.ParseMode(e.Mode)
		if !ok {
			return nil, fmt.Errorf("agentsfile: read %s: mode %q of agent %s is neither managed nor autonomous", path, e.Mode, e.Name)
		}
		agents = append(agents, backend.Agent{Name: e.Name, Mode: mode})
	}
	slices.SortFunc(agents, func(a, b backend.Agent) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < len(agents); i++ {
		if agents[i-1].Name == agents[i].Name {
			return nil, fmt.Errorf("agentsfile: read %s: agent %s is there twice", path, agents[i].Name)
		}
	}
	return agents, nil
}

func format(agents []backend.Agent) ([]byte, error) {
	var f file
	for _, a := range agents {
		f.Agents = append(f.Agents, entry{Name: a.Name, Mode: a.Mode.String()})
	}
	text, err := yaml.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("agentsfile: write: %w", err)
	}
	return text, nil
}

// replace puts text in the place of a file at once: a Registry that reads it meanwhile
// sees the old one or the new one.
func replace(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".agents-*")
	if err != nil {
		return fmt.Errorf("agentsfile: write %s: %w", path, err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("agentsfile: write %s: %w", path, err)
	}
	return nil
}
