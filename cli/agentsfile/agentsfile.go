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
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"
	"sigs.k8s.io/yaml"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/cli/livefile"
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
	file := livefile.File[[]backend.Agent]{
		Path: r.Path, Every: r.Poll, Log: r.Log,
		Parse: func(text []byte) ([]backend.Agent, error) { return parse(r.Path, text) },
	}
	if err := file.Follow(ctx, f); err != nil {
		return fmt.Errorf("agentsfile: %w", err)
	}
	return nil
}

// Read returns the agents in a file, sorted by name.
func Read(path string) ([]backend.Agent, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("agentsfile: %w", err)
	}
	agents, err := parse(path, text)
	if err != nil {
		return nil, fmt.Errorf("agentsfile: %w", err)
	}
	return agents, nil
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
	return write(path, append(agents, a))
}

// Remove removes an agent from a file. One that is not there is fs.ErrNotExist.
func Remove(path, agent string) error {
	agents, err := Read(path)
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(agents, func(a backend.Agent) bool { return a.Name == agent })
	if len(left) == len(agents) {
		return fmt.Errorf("agentsfile: %s has no agent %s: %w", path, agent, fs.ErrNotExist)
	}
	return write(path, left)
}

// write makes a file that has these agents.
func write(path string, agents []backend.Agent) error {
	text, err := format(agents)
	if err == nil {
		_, err = parse(path, text)
	}
	if err != nil {
		return fmt.Errorf("agentsfile: %w", err)
	}
	if err := livefile.Replace(path, text); err != nil {
		return fmt.Errorf("agentsfile: %w", err)
	}
	return nil
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
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if f.Agents == nil { // as while it is being written: no word that there are none
		return nil, fmt.Errorf("read %s: there is no list of agents; write \"agents: []\" if there are none", path)
	}
	agents := make([]backend.Agent, 0, len(f.Agents))
	for _, e := range f.Agents {
		if err := identity.CheckName(e.Name); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		mode, ok := resource.ParseMode(e.Mode)
		if !ok {
			return nil, fmt.Errorf("read %s: mode %q of agent %s is neither managed nor autonomous", path, e.Mode, e.Name)
		}
		agents = append(agents, backend.Agent{Name: e.Name, Mode: mode})
	}
	slices.SortFunc(agents, func(a, b backend.Agent) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < len(agents); i++ {
		if agents[i-1].Name == agents[i].Name {
			return nil, fmt.Errorf("read %s: agent %s is there twice", path, agents[i].Name)
		}
	}
	return agents, nil
}

func format(agents []backend.Agent) ([]byte, error) {
	f := file{Agents: []entry{}} // a file with nobody in it says so
	for _, a := range agents {
		f.Agents = append(f.Agents, entry{Name: a.Name, Mode: a.Mode.String()})
	}
	text, err := yaml.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("write: %w", err)
	}
	return text, nil
}
