package natslink

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// Defaults of a Common.
const (
	DefaultHeartbeat = 8 * time.Second
	DefaultQuota     = 256 << 20
	DefaultAge       = 30 * 24 * time.Hour
)

// MinQuota is the least Quota that takes every Message: the largest one, and the one that it
// replaces.
const MinQuota = 2 * (transport.MaxMessage + maxHeaders + 8<<10)

// Bounds of a Common.
const (
	minHeartbeat = 500 * time.Millisecond
	maxHeartbeat = 30 * time.Second
	minAge       = 24 * time.Hour
)

// A Common is what the configurations of both ends have in common.
type Common struct {
	// StoreDir is the directory of this side's log and copy. It is made if need be. No
	// other process may use it at the same time.
	StoreDir string
	// Quota bounds each log, in bytes on disk; a copy may take twice as much. 0 is
	// DefaultQuota.
	Quota int64
	// MaxStore bounds what all of them take, in bytes; a log and its copy reserve three times
	// the Quota of it. 0 is no bound beyond the quotas.
	MaxStore int64
	// Age is how long a tombstone is kept, at least a day. 0 is DefaultAge.
	Age time.Duration
	// SyncAlways has the disk confirm each message before Send returns, so that not even a
	// power failure loses one. Without it up to two minutes may be lost to that; Links find
	// out and repair it.
	SyncAlways bool
	// Presence is what the peer is told of this process. Process is made if it is empty.
	Presence transport.Presence
	// Heartbeat is how often each side says that it is there. A dead connection, and a peer
	// that says nothing, are noticed within three. 0 is DefaultHeartbeat.
	Heartbeat time.Duration
	// MonitorListen is a loopback address on which the NATS server tells of itself over
	// HTTP (/jsz, /leafz, /varz). Empty is none.
	MonitorListen string
	// Logger takes what happens.
	Logger *zap.Logger
	// Alarms takes one line when a trouble with the store begins and one when it has ended:
	// see Hub.Troubles. nil is Logger.
	Alarms *zap.Logger
}

// errNoDir refuses an end that has to keep something and is not told where.
var errNoDir = errors.New("no store directory")

// check returns c with defaults filled in, and an error if something is wrong.
func (c Common) check() (Common, error) {
	if c.Quota == 0 {
		c.Quota = DefaultQuota
	}
	if c.Age == 0 {
		c.Age = DefaultAge
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = DefaultHeartbeat
	}
	if c.Alarms == nil {
		c.Alarms = c.Logger
	}
	if c.Presence.Process == "" {
		c.Presence.Process = rand.Text()
	}
	switch {
	case c.Logger == nil:
		return c, errors.New("no logger")
	case c.Quota < 0 || c.MaxStore < 0:
		return c, errors.New("negative quota")
	case c.Age < minAge:
		return c, fmt.Errorf("tombstones must be kept for %v, not %v", minAge, c.Age)
	case c.Heartbeat < minHeartbeat || c.Heartbeat > maxHeartbeat:
		return c, fmt.Errorf("heartbeat must be from %v to %v, not %v", minHeartbeat, maxHeartbeat, c.Heartbeat)
	}
	if c.MonitorListen != "" {
		host, _, err := splitAddress(c.MonitorListen)
		if err != nil {
			return c, fmt.Errorf("monitor address: %w", err)
		}
		if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
			return c, fmt.Errorf("monitor address %s is not a loopback address", c.MonitorListen)
		}
	}
	return c, nil
}

// splitAddress returns the parts of host:port as the server wants them: -1 is any port.
func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("address %s has no port", address)
	}
	if port == 0 {
		port = -1
	}
	return host, port, nil
}

// free returns an error that names address if something else listens there.
func free(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("natslink: listen on %s: %w", address, err)
	}
	return l.Close()
}
