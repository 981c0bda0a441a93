package real

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

// A census is who is there: the UIDs of all Applications on all clusters, and of what can be
// deployed by one.
type census map[thing]types.UID

type thing struct{ cluster, resource, namespace, name string }

// An order is what is to go meanwhile: Applications by their names and, where the value is
// true, what is in the namespaces of these names.
type order map[string]bool

// census takes a census.
func (w *world) census(t *testing.T) census {
	t.Helper()
	out := census{}
	for _, cluster := range w.clusters {
		for _, r := range []schema.GroupVersionResource{
			stack.Applications(), {Group: "apps", Version: "v1", Resource: "deployments"}, {Version: "v1", Resource: "configmaps"},
		} {
			list, err := w.stack.Cluster(cluster).Dynamic().Resource(r).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			for _, o := range list.Items {
				out[thing{cluster, r.Resource, o.GetNamespace(), o.GetName()}] = o.GetUID()
			}
		}
	}
	return out
}

// unharmed expects that whatever was there, and was not ordered to go, is there and is the
// same.
func (w *world) unharmed(t *testing.T, before census, gone order) {
	t.Helper()
	now := w.census(t)
	for what, uid := range before {
		_, going := gone[what.name]
		if going && what.resource == stack.Applications().Resource || gone[what.namespace] {
			continue
		}
		require.Equal(t, uid, now[what], "%v is the same as before", what)
	}
}

// wipe removes what a program that does not run has stored.
func (w *world) wipe(t *testing.T, p *program) {
	t.Helper()
	require.False(t, p.Running())
	dir := filepath.Join(w.dir, p.Name())
	require.DirExists(t, dir)
	require.NoError(t, os.RemoveAll(dir))
}
