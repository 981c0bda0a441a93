package stack

import "path/filepath"

// Ports are for programs that a test runs without a [Stack].
type Ports struct{ ports ports }

// NewPorts returns Ports of which none is taken yet.
func NewPorts() (*Ports, error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	return &Ports{ports{dir: filepath.Join(cache, "ports")}}, nil
}

// Take returns a port of 127.0.0.1 that stays reserved until Release.
func (p *Ports) Take() (int, error) { return p.ports.take() }

// Release gives all ports back.
func (p *Ports) Release() { p.ports.release() }
