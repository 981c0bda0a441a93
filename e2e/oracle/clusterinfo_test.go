package oracle

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"
	cacheutil "github.com/argoproj/argo-cd/v2/util/cache"
	"github.com/argoproj/argo-cd/v2/util/cache/appstate"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/argocd-fabric/argocd-agent/principal/clusterinfo"
)

// A hubCache is a Redis as Argo CD sees it.
type hubCache struct {
	*appstate.Cache
	server *miniredis.Miniredis
	client *redis.Client
}

func newHubCache(t *testing.T, compression cacheutil.RedisCompressionType) hubCache {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	cache := cacheutil.NewCache(cacheutil.NewRedisCache(client, time.Hour, compression))
	return hubCache{appstate.NewCache(cache, time.Hour), server, client}
}

// info returns what might be known of a cluster.
func (g *generator) info(server string) clusterinfo.Info {
	i := clusterinfo.Info{
		Server: server, Connected: g.IntN(2) == 0, Version: g.word(),
		APIs: int64(g.IntN(100)), Resources: g.Int64N(1 << 60), Applications: int64(g.IntN(100)),
		APIVersions: some(g, "v1", "apps/v1", "apps/v1/Deployment"),
	}
	if g.IntN(4) > 0 {
		i.Since = now().Add(-time.Duration(g.IntN(600)) * time.Second)
	}
	if g.IntN(4) > 0 {
		i.Synced = now().Add(-time.Duration(g.IntN(600)) * time.Second)
	}
	return i
}

// TestArgoCDReadsWhatIsKnownOfAClusters holds that Argo CD's own cache reads what was
// written, and would have written the same.
func TestArgoCDReadsWhatIsKnownOfAClusters(t *testing.T) {
	for _, compression := range []cacheutil.RedisCompressionType{cacheutil.RedisCompressionGZip, cacheutil.RedisCompressionNone} {
		ours, theirs := newHubCache(t, compression), newHubCache(t, compression)
		cache, err := clusterinfo.NewRedis(clusterinfo.RedisConfig{Address: ours.server.Addr(), Compression: string(compression)})
		require.NoError(t, err)
		everySeed(t, func(t *testing.T, g *generator) {
			const url = "https://proxy:9090?agentName=edge-1"
			i, at := g.info(url+"/"), now()
			text := clusterinfo.Encode("edge-1", i, at, 5*time.Minute)
			require.NoError(t, cache.Apply(t.Context(), map[string][]byte{clusterinfo.Key(i.Server): text}, nil, 10*time.Minute))

			var read v1alpha1.ClusterInfo
			require.NoError(t, ours.GetClusterInfo(url, &read))
			require.Equal(t, i.Version, read.ServerVersion)
			require.Equal(t, i.APIVersions, read.APIVersions)
			require.Equal(t, i.Applications, read.ApplicationsCount)
			require.Equal(t, i.Resources, read.CacheInfo.ResourcesCount)
			require.Equal(t, i.APIs, read.CacheInfo.APIsCount)
			require.Equal(t, i.Synced.IsZero(), read.CacheInfo.LastCacheSyncTime == nil)
			if !i.Synced.IsZero() {
				require.True(t, i.Synced.Equal(read.CacheInfo.LastCacheSyncTime.Time))
			}
			require.Equal(t, state(i, at), read.ConnectionState.Status)
			require.True(t, at.Equal(read.ConnectionState.ModifiedAt.Time))

			require.NoError(t, theirs.SetClusterInfo(url, &read))
			require.Equal(t, theirs.server.Keys(), ours.server.Keys())
			require.Len(t, ours.server.Keys(), 1)
			key := ours.server.Keys()[0]
			require.Equal(t, theirs.server.TTL(key), ours.server.TTL(key))
			require.JSONEq(t, string(encoded(t, read)), string(text))
		})
	}
}

func state(i clusterinfo.Info, at time.Time) v1alpha1.ConnectionStatus {
	switch {
	case i.Connected:
		return v1alpha1.ConnectionStatusSuccessful
	case i.Since.IsZero():
		return v1alpha1.ConnectionStatusUnknown
	case at.Sub(i.Since) < 5*time.Minute:
		return v1alpha1.ConnectionStatusSuccessful
	}
	return v1alpha1.ConnectionStatusFailed
}

func TestArgoCDMissesAClusterThatWasForgotten(t *testing.T) {
	c := newHubCache(t, cacheutil.RedisCompressionGZip)
	cache, err := clusterinfo.NewRedis(clusterinfo.RedisConfig{Address: c.server.Addr()})
	require.NoError(t, err)
	key := clusterinfo.Key("https://proxy")
	require.NoError(t, c.SetClusterInfo("https://proxy", &v1alpha1.ClusterInfo{}))
	require.NoError(t, cache.Apply(t.Context(), nil, []string{key}, time.Minute))
	require.ErrorIs(t, c.GetClusterInfo("https://proxy", &v1alpha1.ClusterInfo{}), appstate.ErrCacheMiss)
}

// TestKeysOfAnApplication writes down by which keys and channels Argo CD tells what an
// Application is made of: the tree and the managed resources, of the Application's name if it
// is in Argo CD's namespace, else of <namespace>_<name>.
func TestKeysOfAnApplication(t *testing.T) {
	app := func(namespace string) string {
		a := v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: namespace}}
		return a.InstanceName("argocd")
	}
	for _, c := range []struct {
		compression cacheutil.RedisCompressionType
		namespace   string
		keys        []string
		channel     string
	}{
		{
			cacheutil.RedisCompressionGZip, "argocd",
			[]string{"app|managed-resources|demo|1.8.3.gz", "app|resources-tree|demo|1.8.3.gz"},
			"app|managed-resources|demo|1.8.3",
		},
		{
			cacheutil.RedisCompressionNone, "edge-1",
			[]string{"app|managed-resources|edge-1_demo|1.8.3", "app|resources-tree|edge-1_demo|1.8.3"},
			"app|managed-resources|edge-1_demo|1.8.3",
		},
	} {
		t.Run(fmt.Sprint(c.compression, " ", c.namespace), func(t *testing.T) {
			cache := newHubCache(t, c.compression)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			updates := cache.client.Subscribe(ctx, c.channel)
			defer updates.Close()
			_, err := updates.Receive(ctx) // it is subscribed
			require.NoError(t, err)
			require.NoError(t, cache.SetAppResourcesTree(app(c.namespace), &v1alpha1.ApplicationTree{}))
			require.NoError(t, cache.SetAppManagedResources(app(c.namespace), []*v1alpha1.ResourceDiff{}))
			require.Equal(t, c.keys, cache.server.Keys())
			message, err := updates.ReceiveMessage(ctx)
			require.NoError(t, err)
			require.Empty(t, message.Payload)
		})
	}
}
