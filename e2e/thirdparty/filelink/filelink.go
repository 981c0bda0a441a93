// Package filelink carries a link in files: a transport that was written outside the
// project, as an example. Each side writes into a folder of its own and reads the other's,
// which is mounted in it as "peer": who may write there is who the peer is. A folder holds
//
//	log     what this side has sent
//	hello   who is there, how often it has said so, and whom it hears
//	p.C.N   what the peer is to read as the N-th packet of the connection C, until it has
package filelink

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/packetlink"
)

// NewHub returns the principal's end. Its folder holds one for each agent.
func NewHub(dir string, p transport.Presence) *packetlink.Hub {
	return packetlink.NewHub(packetlink.HubConfig{
		Open: func(agent string) (transport.Link, error) {
			return open(filepath.Join(dir, agent), "principal", agent, p)
		},
		Forget: func(agent string) error {
			if err := os.Remove(filepath.Join(dir, agent, "log")); err != nil {
				return fmt.Errorf("filelink: %w: %w", transport.ErrUnknown, err)
			}
			return nil
		},
		Kept: func() (agents []string, err error) {
			logs, err := filepath.Glob(filepath.Join(dir, "*", "log"))
			for _, log := range logs {
				agents = append(agents, filepath.Base(filepath.Dir(log)))
			}
			return agents, err
		},
	})
}

// NewDialer returns the end of an agent with a folder.
func NewDialer(dir, agent string, p transport.Presence) *packetlink.Dialer {
	return packetlink.NewDialer(func() (transport.Link, error) { return open(dir, agent, "principal", p) })
}
