package natslink

import (
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
)

// serverOptions returns the options of a server that are the same on both ends.
func (c Common) serverOptions(name, domain string) *server.Options {
	o := &server.Options{
		ServerName:        name,
		JetStreamDomain:   domain,
		StoreDir:          c.StoreDir,
		JetStreamMaxStore: c.MaxStore,
		SyncAlways:        c.SyncAlways,
		PingInterval:      c.Heartbeat,
	}
	if c.MonitorListen != "" {
		// The address was checked.
		o.HTTPHost, o.HTTPPort, _ = splitAddress(c.MonitorListen)
	}
	return o
}

// stream returns the settings of one stream, of which part says whether it is a log or a
// copy. A copy has twice the room: while it follows, it may hold what the log was and
// what it has become.
func (c Common) stream(agent, part, name, prefix string) streamConfig {
	s := streamConfig{agent: agent, part: part, name: name, dir: c.StoreDir, prefix: prefix, maxBytes: c.Quota, maxRows: maxRows, age: c.Age}
	if part == partCopy {
		s.maxBytes *= 2
		s.maxRows *= 2
	}
	return s
}

// maxRows is how many keys a log may have.
const maxRows = 1 << 18

// The parts that a stream may have.
const (
	partLog  = "log"
	partCopy = "copy"
)

// monitorAddr returns the address of the server's monitoring, "" if there is none.
func (n *node) monitorAddr() string {
	if a := n.current().MonitorAddr(); a != nil {
		return a.String()
	}
	return ""
}

// upstream returns the number of the connection to the hub, 0 if there is none. To list those that there
// are is much more than to see whether the last that was found is still there.
func (n *node) upstream() uint64 {
	s := n.current()
	if last := n.up.Load(); last != nil && last.of == s && s.GetLeafNode(last.id) != nil {
		return last.id
	}
	z, err := s.Leafz(nil)
	if err != nil || len(z.Leafs) == 0 {
		return 0
	}
	n.up.Store(&upstream{s, z.Leafs[0].ID})
	return z.Leafs[0].ID
}

// An upstream is a connection to the hub, by its number on a server.
type upstream struct {
	of *server.Server
	id uint64
}

// connected returns id if the connection with that number is open, and 0 if not.
func (n *node) connected(id uint64) uint64 {
	if s := n.current(); id == 0 || s.GetLeafNode(id) == nil && s.GetClient(id) == nil {
		return 0
	}
	return id
}

// sever closes a connection from or to outside.
func (n *node) sever(id uint64) {
	// It fails only for one that is gone by now.
	_ = n.current().DisconnectClientByID(id)
}

// kick closes the connections of an account from outside.
func (n *node) kick(account string) error {
	leafs, err := n.current().Leafz(&server.LeafzOptions{Account: account})
	if err != nil {
		return fmt.Errorf("list connections: %w", err)
	}
	for _, leaf := range leafs.Leafs {
		n.sever(leaf.ID)
	}
	clients, err := n.current().Connz(&server.ConnzOptions{Account: account})
	if err != nil {
		return fmt.Errorf("list connections: %w", err)
	}
	for _, client := range clients.Conns {
		n.sever(client.Cid)
	}
	return nil
}
