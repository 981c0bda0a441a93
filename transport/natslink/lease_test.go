package natslink

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
)

// TestOnePrincipalServes starts principals on servers on which there is one: while it lives none comes
// up, and says why; another may once it has ended, at once.
func TestOnePrincipalServes(t *testing.T) {
	e := newPlace(t, tlstest.NewAuthority(t))
	first, stop := startHub(t, e.hubConfig(t))
	_, err := first.Link(t.Context(), "north")
	require.NoError(t, err)

	second, err := NewHub(e.hubConfig(t))
	require.NoError(t, err)
	second.base.(*cluster).lease.patience = time.Millisecond
	err = second.Run(t.Context())
	require.ErrorContains(t, err, "another principal serves agents on these NATS servers, on host "+first.base.(*cluster).lease.self.Host)
	require.ErrorContains(t, err, first.config.Presence.Process)

	stop()
	third, _ := startHub(t, e.hubConfig(t))
	_, err = third.Link(t.Context(), "north")
	require.NoError(t, err)
}

// TestAPrincipalThatWasReplacedEnds has another hold what it was given: it was taken for dead.
func TestAPrincipalThatWasReplacedEnds(t *testing.T) {
	e := newPlace(t, tlstest.NewAuthority(t))
	h, err := NewHub(e.hubConfig(t))
	require.NoError(t, err)
	h.base.(*cluster).lease.every = 10 * time.Millisecond
	ended := make(chan error, 1)
	go func() { ended <- h.Run(context.WithoutCancel(t.Context())) }()
	require.NoError(t, h.serving.Wait(t.Context()))
	_, err = h.stores[0].Publish(t.Context(), leaseSubject, []byte(`{"process": "other", "host": "elsewhere"}`))
	require.NoError(t, err)
	require.ErrorContains(t, <-ended, "on host elsewhere since ")
}

// TestWhoseHolderIsGone takes the lease of holders that do not answer: nobody listens for one that was
// killed, and what is no record at all is nobody's.
func TestWhoseHolderIsGone(t *testing.T) {
	for name, record := range map[string]string{"killed": `{"process": "other", "host": "elsewhere"}`, "no record": "what?"} {
		t.Run(name, func(t *testing.T) {
			e := newPlace(t, tlstest.NewAuthority(t))
			h, stop := startHub(t, e.hubConfig(t))
			require.NoError(t, h.serving.Wait(t.Context()))
			_, err := h.stores[0].Publish(t.Context(), leaseSubject, []byte(record))
			require.NoError(t, err)
			stop()
			h, _ = startHub(t, e.hubConfig(t))
			_, err = h.Link(t.Context(), "north")
			require.NoError(t, err)
		})
	}
}
