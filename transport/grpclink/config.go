package grpclink

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// Defaults of a Common and of a HubConfig.
const (
	DefaultHeartbeat  = 8 * time.Second
	DefaultAdmissions = 400
)

// Bounds of a Common.
const (
	minHeartbeat = 100 * time.Millisecond
	maxHeartbeat = 30 * time.Second
)

// A Common is what the configurations of both ends have in common.
type Common struct {
	// Presence is what the peer is told of this process. Process is made if it is empty.
	Presence transport.Presence
	// Heartbeat is how often each side says that it is there. A peer that says nothing is
	// away within three. 0 is DefaultHeartbeat.
	Heartbeat time.Duration
	// Logger takes what happens.
	Logger *zap.Logger
}

// check returns c with defaults filled in, and an error if something is wrong.
func (c Common) check() (Common, error) {
	if c.Heartbeat == 0 {
		c.Heartbeat = DefaultHeartbeat
	}
	if c.Presence.Process == "" {
		c.Presence.Process = rand.Text()
	}
	switch {
	case c.Logger == nil:
		return c, errors.New("no logger")
	case c.Heartbeat < minHeartbeat || c.Heartbeat > maxHeartbeat:
		return c, fmt.Errorf("heartbeat must be from %v to %v, not %v", minHeartbeat, maxHeartbeat, c.Heartbeat)
	}
	return c, nil
}
