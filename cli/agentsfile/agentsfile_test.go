package agentsfile

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func TestAddAndRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agents.yaml")
	_, err := Read(path)
	require.ErrorIs(t, err, os.ErrNotExist)

	b, a := backend.Agent{Name: "b"}, backend.Agent{Name: "a", Mode: resource.Autonomous}
	require.NoError(t, Add(path, b))
	require.NoError(t, Add(path, a))
	require.ErrorContains(t, Add(path, backend.Agent{Name: "b", Mode: resource.Autonomous}), "has an agent b already")
	require.ErrorContains(t, Add(path, backend.Agent{Name: "kube-system"}), "reserved")
	got, err := Read(path)
	require.NoError(t, err)
	require.Equal(t, []backend.Agent{a, b}, got)
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1)
}

func TestRemove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agents.yaml")
	require.ErrorIs(t, Remove(path, "a"), os.ErrNotExist)
	require.NoError(t, Add(path, backend.Agent{Name: "a"}))
	require.NoError(t, Add(path, backend.Agent{Name: "b"}))
	require.ErrorIs(t, Remove(path, "c"), os.ErrNotExist)
	require.NoError(t, Remove(path, "a"))
	got, err := Read(path)
	require.NoError(t, err)
	require.Equal(t, []backend.Agent{{Name: "b"}}, got)

	// The last one leaves a file that says that there is nobody.
	require.NoError(t, Remove(path, "b"))
	got, err = Read(path)
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestUnreadable(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "there is no list of agents",
		"agents: 7":                          "cannot unmarshal number",
		"agent: []":                          `unknown field "agent"`,
		"agents: [{name: a, mode: manged}]":  `mode "manged" of agent a is neither managed nor autonomous`,
		"agents: [{name: a}]":                `mode "" of agent a is neither`,
		"agents: [{name: A, mode: managed}]": "not a DNS-1123 label",
		"agents: [{name: a, mode: managed, x: 1}]":   `unknown field "x"`,
		"agents: [&a {name: a, mode: managed}, *a ]": "agent a is there twice",
	} {
		path := filepath.Join(t.TempDir(), "agents.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := Read(path)
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, Registry{Path: path, Poll: 1, Log: zap.NewNop()}.Watch(t.Context(), nil), want, text)
	}
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "agents.yaml")
		require.NoError(t, os.WriteFile(path, []byte("agents: []"), 0o600))
		core, logged := observer.New(zapcore.ErrorLevel)
		sets := make(chan []backend.Agent, 1)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- Registry{Path: path, Poll: time.Second, Log: zap.New(core)}.Watch(ctx, func(set []backend.Agent) error {
				sets <- set
				return nil
			})
		}()
		require.Empty(t, <-sets)

		a := backend.Agent{Name: "a"}
		require.NoError(t, Add(path, a))
		require.Equal(t, []backend.Agent{a}, <-sets)

		require.NoError(t, os.WriteFile(path, []byte("agents: [{}]"), 0o600))
		<-time.After(5 * time.Second) // virtual: four looks at it
		require.Equal(t, 1, logged.Len(), "one line, not one a second")
		require.Empty(t, sets)

		require.NoError(t, os.Remove(path))
		<-time.After(5 * time.Second)
		require.Equal(t, 2, logged.Len())
		require.Empty(t, sets)

		require.NoError(t, os.WriteFile(path, []byte("agents: []"), 0o600))
		require.Empty(t, <-sets)
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}
