package natslink

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// TestCopyThatCouldNotBeLookedAtIsLookedAtAgain: else the peer would be asked for what
// follows what the copy does not hold.
func TestCopyThatCouldNotBeLookedAtIsLookedAtAgain(t *testing.T) {
	_, leaf, _, agent := joined(t)
	c := leaf.config.stream("other", partCopy, "IN_other", "fabric.other.down.")
	empty, err := newStream(t.Context(), leaf.open.node.vault, logOf(agent).js, c)
	require.NoError(t, err)
	p := &puller{
		copy: empty, mailbox: newMailbox(), zap: zap.NewNop(), reachable: func() bool { return false }, offend: func(error) {},
		have: position{Epoch: "before", Seq: 7}, recheck: make(chan struct{}, 1), interrupt: make(chan struct{}, 1),
	}
	signal(p.recheck)
	failing, cancel := context.WithCancelCause(t.Context())
	cancel(transport.ErrStore)
	require.ErrorIs(t, p.step(failing), transport.ErrStore)
	require.NotZero(t, p.have)
	require.ErrorIs(t, p.step(t.Context()), errAway)
	require.Zero(t, p.have)
}
