package stack_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/e2e/stack/stacktest"
)

// TestSnapshot takes one of two clusters back in time, and then empties it.
func TestSnapshot(t *testing.T) {
	s := stacktest.Start(t, stack.Config{Clusters: []stack.ClusterConfig{{Name: "old", Etcd: true}, {Name: "other"}}})
	ctx, c := within(t, time.Minute), s.Cluster("old")
	client := configMaps(c, "default")
	create := func(name string) *unstructured.Unstructured {
		made, err := client.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
		return made
	}
	before := create("before")
	file := filepath.Join(t.TempDir(), "snapshot")
	require.NoError(t, c.Snapshot(ctx, file))
	// More than an API server writes of its own when it starts.
	for n := range 100 {
		patch := fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n)
		_, err := client.Patch(ctx, "before", "application/merge-patch+json", patch, metav1.PatchOptions{})
		require.NoError(t, err)
	}
	version, err := strconv.Atoi(create("since").GetResourceVersion())
	require.NoError(t, err)

	require.NoError(t, c.Restore(ctx, file))
	now, err := client.Get(ctx, "before", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, before, now)
	_, err = client.Get(ctx, "since", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), err)
	list, err := client.List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	young, err := strconv.Atoi(list.GetResourceVersion())
	require.NoError(t, err)
	require.Less(t, young, version)
	create("since")

	data, err := os.ReadFile(file)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	damaged := filepath.Join(t.TempDir(), "damaged")
	require.NoError(t, os.WriteFile(damaged, data, 0o600))
	require.ErrorContains(t, c.Restore(ctx, damaged), "is damaged")

	require.NoError(t, c.Restore(ctx, ""))
	_, err = client.Get(ctx, "before", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), err)
	_, err = configMaps(s.Cluster("other"), "default").List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
}
