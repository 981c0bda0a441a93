package real

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// registry: an agent's cluster secret is changed, deleted and made again while both
// programs run. What the hub kept for the agent is gone with the secret, its Applications
// are not; and under the same name a fresh cluster gets them all.
func registry(t *testing.T, w *world) {
	a := w.agent(t, "edge-2")
	for i := range 6 {
		name := fmt.Sprint("registered-", i)
		a.hub.create(t, application(name, spec(a.name, "https://git.example.com/registry.git", name)))
	}
	within(t, patience, w.inStep)
	before := identities(t, a)

	// Registered in another mode than it runs in it says nothing that is heard, and
	// nothing is harmed.
	w.relabel(t, a, "autonomous")
	within(t, patience, w.registered(t, a.name, "autonomous"))
	time.Sleep(5 * time.Second)
	require.Equal(t, before, identities(t, a))
	w.relabel(t, a, "managed")
	within(t, patience, w.registered(t, a.name, "managed"))
	a.hub.patch(t, "registered-0", fields{"spec": fields{"source": fields{"targetRevision": "two"}}})
	within(t, patience, all(a.spoke.is("registered-0", has("two", "spec", "source", "targetRevision")), w.inStep))
	require.Equal(t, before, identities(t, a))

	w.unregister(t, a)
	within(t, patience, w.forgotten(a.name))
	a.hub.patch(t, "registered-0", fields{"spec": fields{"source": fields{"targetRevision": "three"}}})
	time.Sleep(5 * time.Second)
	require.Equal(t, before, identities(t, a), "nothing is deleted on either side")
	require.NoError(t, a.spoke.is("registered-0", has("two", "spec", "source", "targetRevision"))(t.Context()))
	require.NoError(t, w.forgotten(a.name)(t.Context()), "and nothing is made anew for it")

	a.stop(t)
	require.NoError(t, os.RemoveAll(filepath.Join(w.dir, a.Name())))
	require.NoError(t, a.spoke.objects().DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	w.ctl(t, "agent", "create", a.name, "--mode", "managed")
	require.NoError(t, a.Start(t.Context()))
	within(t, patience, all(a.spoke.is("registered-0", has("three", "spec", "source", "targetRevision")), w.inStep))
	require.Equal(t, before[0], identities(t, a)[0], "what is on the hub stays as it is")
}

// identities returns the UIDs of an agent's Applications by name, on the hub and on the
// spoke.
func identities(t *testing.T, a *agent) (out [2]map[string]string) {
	for i, p := range []place{a.hub, a.spoke} {
		apps, err := p.all(t.Context())
		require.NoError(t, err)
		out[i] = map[string]string{}
		for name, app := range apps {
			out[i][name] = string(app.GetUID())
		}
	}
	return out
}

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

func (w *world) relabel(t *testing.T, a *agent, mode string) {
	patch := fmt.Sprintf(`{"metadata":{"labels":{"argocd-agent.argoproj-labs.io/agent-mode":%q}}}`, mode)
	_, err := w.hub.Dynamic().Resource(secrets).Namespace(argocd).Patch(t.Context(), "cluster-"+a.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(t, err)
}

func (w *world) unregister(t *testing.T, a *agent) {
	require.NoError(t, w.hub.Dynamic().Resource(secrets).Namespace(argocd).Delete(t.Context(), "cluster-"+a.name, metav1.DeleteOptions{}))
}

// forgotten returns a check that the principal keeps no stream of an agent.
func (w *world) forgotten(agent string) func(context.Context) error {
	return func(ctx context.Context) error {
		streams, err := w.principal.streams(ctx)
		for name := range streams {
			if strings.HasSuffix(name, "_"+agent) {
				return fmt.Errorf("there is a stream %s", name)
			}
		}
		return err
	}
}

// registered returns a check that an agent is registered in a mode.
func (w *world) registered(t *testing.T, agent, mode string) func(context.Context) error {
	return func(context.Context) error {
		for line := range strings.Lines(w.ctl(t, "agent", "list")) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == agent && f[1] == mode {
				return nil
			}
		}
		return fmt.Errorf("%s is not registered as %s", agent, mode)
	}
}
