package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func TestNumbersAreReadBack(t *testing.T) {
	o := resource.Object{Key: resource.Key{Kind: resource.Application, Name: App(7)}}
	_, err := Number(o)
	require.Error(t, err)
	require.Zero(t, StatusNumber(o))
	o.Parts[resource.Spec], o.Parts[resource.Status] = Spec(12), Status(34, 6)
	n, err := Number(o)
	require.NoError(t, err)
	require.Equal(t, 12, n)
	require.Equal(t, 34, StatusNumber(o))
	app, err := ParseApp(o.Key)
	require.NoError(t, err)
	require.Equal(t, 7, app)
	require.InDelta(t, 1024, len(o.Parts[resource.Status]), 200)
	require.InDelta(t, 1024, len(o.Parts[resource.Spec]), 200)
}

func TestTicks(t *testing.T) {
	took, err := ticks("4321 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0")
	require.NoError(t, err)
	require.Equal(t, 1750*time.Millisecond, took)
	for _, bad := range []string{"", "1 (a) S 1 2", "1 (a) S 1 2 3 4 5 6 7 8 9 10 x 25 0", "1 (a) S 1 2 3 4 5 6 7 8 9 10 1 x 0"} {
		_, err := ticks(bad)
		require.Error(t, err, bad)
	}
}

func TestKiB(t *testing.T) {
	require.Equal(t, uint64(3<<20), kib([]byte("VmSize: 7 kB\nVmRSS:\t    3072 kB\n"), "VmRSS:"))
	require.Zero(t, kib([]byte("VmSize: 7 kB\n"), "VmRSS:"))
}
