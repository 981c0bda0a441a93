//go:build !race

package thin

import (
	"testing"

	"github.com/argocd-fabric/argocd-agent/transport/linktest"
)

// TestLink runs the suite of every transport. The detector of races makes it take minutes, in
// which a busy machine is silent for longer than the suite's heartbeats allow.
func TestLink(t *testing.T) { linktest.Run(t, adapter) }
