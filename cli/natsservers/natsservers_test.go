package natsservers

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/argocd-fabric/argocd-agent/cli/natskeys"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func keys(t *testing.T, operator bool) natskeys.Set {
	o := pki.Options{Now: time.Now(), Lifetime: time.Hour}
	ca, err := pki.NewCA("a CA", o)
	require.NoError(t, err)
	set, err := natskeys.Complete(natskeys.Set{}, natskeys.Request{CA: ca, Hosts: []string{"127.0.0.1"}, Options: o, Operator: operator})
	require.NoError(t, err)
	return set
}

// One server runs by deploy/nats alone, and three find each other, in operator mode, too.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		servers  int
		operator bool
	}{{1, false}, {3, false}, {3, true}} {
		places, err := Free(t.TempDir(), c.servers)
		require.NoError(t, err)
		paths, err := Write(keys(t, c.operator), places...)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		require.ErrorIs(t, Run(ctx, paths, cancel), context.Canceled)
	}
}

// What is said of a server here is what deploy/nats says of one in Kubernetes.
func TestSameVariables(t *testing.T) {
	places, err := Free(t.TempDir(), 2)
	require.NoError(t, err)
	paths, err := Write(keys(t, false), places...)
	require.NoError(t, err)
	for _, file := range []string{"node.conf", "peers.conf"} {
		require.Equal(t, variables(t, filepath.Join("..", "..", "deploy", "nats", file)), variables(t, filepath.Join(filepath.Dir(paths[0]), file)), file)
	}
}

func variables(t *testing.T, path string) []string {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	names := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^([A-Z_]+):`).FindAllSubmatch(text, -1) {
		names[string(found[1])] = true
	}
	require.NotEmpty(t, names, path)
	return slices.Sorted(maps.Keys(names))
}
