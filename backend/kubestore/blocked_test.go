package kubestore

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestBlocklistIsFollowed(t *testing.T) {
	h := startCluster(t).home(t)
	told := make(chan map[string]string)
	run(t, func(ctx context.Context) error {
		return h.WatchBlocked(ctx, func(is map[string]string) {
			select {
			case told <- is:
			case <-ctx.Done():
			}
		})
	})
	require.Empty(t, <-told, "there is none")
	put := func(who, why string) error {
		return h.Block(t.Context(), func(is map[string]string) error {
			if _, ok := is[who]; ok {
				return errors.New("it is there")
			}
			is[who] = why
			return nil
		})
	}
	require.NoError(t, put("edge-1", "sold"))
	require.Equal(t, map[string]string{"edge-1": "sold"}, <-told)
	require.EqualError(t, put("edge-1", "lost"), "it is there")
	require.NoError(t, put("edge-2", "lost"))
	require.Equal(t, map[string]string{"edge-1": "sold", "edge-2": "lost"}, <-told)
	is, err := h.Blocked(t.Context())
	require.NoError(t, err)
	require.Len(t, is, 2)

	// Two at once lose nothing of each other.
	both := make(chan error, 2)
	for _, who := range []string{"edge-3", "edge-4"} {
		go func() { both <- put(who, "") }()
	}
	require.NoError(t, errors.Join(<-both, <-both))
	for len(is) < 4 {
		is = <-told
	}
	require.NoError(t, h.client.Resource(configMaps).Namespace(h.cfg.Namespace).Delete(t.Context(), Blocklist, metav1.DeleteOptions{}))
	require.Empty(t, <-told)
	is, err = h.Blocked(t.Context())
	require.NoError(t, err)
	require.Empty(t, is)
}
