package real

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/kubestore"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/verify"
)

// stores read the clusters as an administrator, by the cluster's name.
type stores map[string]*kubestore.Store

// newStores runs stores until the test is over.
func newStores(t *testing.T, w *world) stores {
	out := stores{}
	for name, side := range map[string]resource.Side{"hub": resource.Principal, "spoke-1": resource.Agent, "spoke-2": resource.Agent} {
		s, err := kubestore.New(kubestore.Config{REST: w.stack.Cluster(name).RESTConfig(), Side: side, QPS: -1, Log: zap.NewNop()})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			require.ErrorIs(t, <-ended, context.Canceled)
		})
		out[name] = s
	}
	return out
}

// verify compares both sides of all agents that run, and returns how many objects of the
// hub it has compared and in what they differ.
func (w *world) verify(ctx context.Context) (objects int, differences []verify.Difference, err error) {
	for _, a := range w.agents {
		p := principal.Placement{Agent: a.name, Mode: resource.Managed}
		hub, err := verify.Read(ctx, w.stores["hub"], backend.Scope{Namespace: a.hub.namespace})
		if err != nil {
			return 0, nil, err
		}
		for i, o := range hub {
			hub[i].Key, _ = p.Out(o.Key)
			hub[i].Parts = p.Down(o.Key.Kind, o.Parts)
		}
		spoke, err := verify.Read(ctx, w.stores[a.spoke.Name()], backend.Scope{Namespace: argocd})
		if err != nil {
			return 0, nil, err
		}
		for i := range spoke {
			spoke[i].Key.Namespace = ""
		}
		objects += len(hub)
		differences = append(differences, verify.Compare(verify.Options{Mode: resource.Managed, Agent: a.name}, hub, spoke)...)
	}
	return objects, differences, nil
}

// inStep checks that both sides of all agents agree.
func (w *world) inStep(ctx context.Context) error {
	_, differences, err := w.verify(ctx)
	for _, d := range differences {
		err = errors.Join(err, fmt.Errorf("%s", d))
	}
	return err
}

// verified expects that both sides agree, and returns how many objects they agree on.
func (w *world) verified(t *testing.T) int {
	t.Helper()
	objects, differences, err := w.verify(t.Context())
	require.NoError(t, err)
	require.Empty(t, differences)
	return objects
}
