package clusterinfo_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/principal/clusterinfo"
)

// start is when the tests begin, in a zone of its own to show that it does not matter.
func start() time.Time {
	return time.Date(2026, 3, 1, 10, 0, 0, 5, time.FixedZone("", 3600))
}

func TestEncode(t *testing.T) {
	full := clusterinfo.Info{
		Connected: true, Since: start(), Version: "1.34", APIVersions: []string{"v1", "apps/v1/Deployment"},
		APIs: 51, Resources: 1234, Synced: start().Add(-time.Minute), Applications: 7,
	}
	away, refused := full, full
	away.Connected = false
	refused.Refused = "upgrade it"
	for _, c := range []struct {
		name string
		info clusterinfo.Info
		now  time.Time
		want string
	}{
		{"connected", full, start().Add(time.Hour), `{
			"connectionState": {"status": "Successful", "message": "", "attemptedAt": "2026-03-01T10:00:00Z"},
			"serverVersion": "1.34",
			"cacheInfo": {"resourcesCount": 1234, "apisCount": 51, "lastCacheSyncTime": "2026-03-01T08:59:00Z"},
			"applicationsCount": 7,
			"apiVersions": ["v1", "apps/v1/Deployment"]}`},
		{"refused", refused, start().Add(time.Hour), `{
			"connectionState": {"status": "Failed", "message": "agent edge-1 is refused: upgrade it", "attemptedAt": "2026-03-01T10:00:00Z"},
			"serverVersion": "1.34",
			"cacheInfo": {"resourcesCount": 1234, "apisCount": 51, "lastCacheSyncTime": "2026-03-01T08:59:00Z"},
			"applicationsCount": 7,
			"apiVersions": ["v1", "apps/v1/Deployment"]}`},
		{"away for a moment", away, start().Add(time.Minute - time.Second), `{
			"connectionState": {"status": "Successful", "message": "agent edge-1 is away since 2026-03-01T09:00:00Z", "attemptedAt": "2026-03-01T09:00:59Z"},
			"serverVersion": "1.34",
			"cacheInfo": {"resourcesCount": 1234, "apisCount": 51, "lastCacheSyncTime": "2026-03-01T08:59:00Z"},
			"applicationsCount": 7,
			"apiVersions": ["v1", "apps/v1/Deployment"]}`},
		{"away", away, start().Add(time.Minute), `{
			"connectionState": {"status": "Failed", "message": "agent edge-1 has been away since 2026-03-01T09:00:00Z", "attemptedAt": "2026-03-01T09:01:00Z"},
			"serverVersion": "1.34",
			"cacheInfo": {"resourcesCount": 1234, "apisCount": 51, "lastCacheSyncTime": "2026-03-01T08:59:00Z"},
			"applicationsCount": 7,
			"apiVersions": ["v1", "apps/v1/Deployment"]}`},
		{"never there", clusterinfo.Info{}, start(), `{
			"connectionState": {"status": "Unknown", "message": "agent edge-1 has not connected yet", "attemptedAt": "2026-03-01T09:00:00Z"},
			"cacheInfo": {},
			"applicationsCount": 0}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.JSONEq(t, c.want, string(clusterinfo.Encode("edge-1", c.info, c.now, time.Minute)))
		})
	}
}

func TestKey(t *testing.T) {
	const want = "cluster|info|https://proxy:9090?agentName=edge-1|1.8.3"
	require.Equal(t, want, clusterinfo.Key("https://proxy:9090?agentName=edge-1"))
	require.Equal(t, want, clusterinfo.Key("https://proxy:9090?agentName=edge-1//"))
}
