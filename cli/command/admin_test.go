package command

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/cli/agentsfile"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

// A socket that a killed process has left is taken over, one that is in use is not; only
// its owner reaches it, and it is gone at the end.
func TestTheDesksSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	require.NoError(t, err)
	left.SetUnlinkOnClose(false)
	require.NoError(t, left.Close())
	require.FileExists(t, path)

	p, err := principal.New(principal.Config{
		Namespace: "argocd",
		Identity:  "hub-1", Hub: memlink.New(memlink.Config{}).Hub(transport.Presence{}), Store: memstore.New(memstore.Config{}),
		Registry: agentsfile.Registry{}, Tick: 1, Log: zap.NewNop(),
	})
	require.NoError(t, err)
	server, err := admin.New(admin.Config{Principal: p, Log: zap.NewNop()})
	require.NoError(t, err)
	d := adminDesk{network: "unix", address: path, server: server}
	l, err := d.listen(t.Context())
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	_, err = d.listen(t.Context())
	require.ErrorContains(t, err, "address already in use")

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	client, err := admin.NewClient(admin.Unix + path)
	require.NoError(t, err)
	all, err := client.Agents(t.Context())
	require.NoError(t, err)
	require.Empty(t, all.Agents)
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.NoFileExists(t, path)
	_, err = client.Agents(t.Context())
	require.ErrorIs(t, err, admin.ErrSilent)
}
