package real

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
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
		s, err := kubestore.New(kubestore.Config{REST: w.stack.Cluster(name).RESTConfig(), Side: side, Home: "argocd", QPS: -1, Log: zap.NewNop()})
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

// verify compares both sides of all agents that were started, and returns how many objects
// of the hub it has compared and in what they differ.
func (w *world) verify(ctx context.Context) (objects int, differences []verify.Difference, err error) {
	for _, a := range w.agents {
		p := principal.Placement{Agent: a.name, Mode: resource.Managed}
		hub, err := w.stores.read(ctx, a.hub)
		if err != nil {
			return 0, nil, err
		}
		for i, o := range hub {
			hub[i].Key, _ = p.Out(o.Key)
			hub[i].Parts = p.Down(o.Key.Kind, o.Parts)
		}
		spoke, err := w.stores.read(ctx, a.spoke)
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

// read returns what is at a place. It fails if the store has not seen the newest of it yet.
func (s stores) read(ctx context.Context, p place) ([]resource.Object, error) {
	objects, err := verify.Read(ctx, s[p.Name()], backend.In(p.namespace))
	if err != nil {
		return nil, err
	}
	newest, err := p.all(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if app := newest[o.Key.Name]; app == nil || app.GetResourceVersion() != o.Version {
			return nil, fmt.Errorf("%s on %s has changed just now", o.Key, p.Name())
		}
	}
	if len(objects) != len(newest) {
		return nil, fmt.Errorf("%d objects on %s are new just now", len(newest)-len(objects), p.Name())
	}
	return objects, nil
}

// inStep checks that both sides of all agents agree.
func (w *world) inStep(ctx context.Context) error {
	_, differences, err := w.verify(ctx)
	for _, d := range differences {
		err = errors.Join(err, fmt.Errorf("%s", d))
	}
	return err
}

// verified expects that both sides agree, and returns how many objects they agree on. The
// program says the same, which asks the running agents.
func (w *world) verified(t *testing.T) int {
	t.Helper()
	objects, differences, err := w.verify(t.Context())
	require.NoError(t, err)
	require.Empty(t, differences)
	told := 0
	for name := range w.agents {
		var verdicts []struct{ Objects int }
		require.NoError(t, json.Unmarshal([]byte(w.ask(t, "verify", "--agent", name, "-o", "json")), &verdicts))
		told += verdicts[0].Objects
	}
	require.Equal(t, objects, told)
	return objects
}

// ask runs argocd-agentctl, as somebody who reaches the running principal, and returns what
// it says.
func (w *world) ask(t *testing.T, args ...string) string {
	t.Helper()
	output, err := w.tryToAsk(t.Context(), args...)
	require.NoError(t, err)
	return output
}

// tryToAsk is ask, whatever comes of it.
func (w *world) tryToAsk(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(w.dir, "argocd-agentctl"), append(args, "--principal-address", w.desk())...)
	cmd.Env = []string{"TMPDIR=" + w.tmp()}
	output, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, output)
	}
	return string(output), nil
}
