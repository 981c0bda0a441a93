package natscluster

import (
	"context"
	"errors"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/cli/natskeys"
	"github.com/argocd-fabric/argocd-agent/cli/natsservers"
	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

// An agent, whose certificate is of the same CA, cannot have its server join the cluster.
func TestNoAgentJoinsTheServers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w := newServers(t, ctx)
	keys := w.keys(t)
	var err error
	for name, file := range map[string]string{natskeys.Cert: "edge-leaf.crt", natskeys.Key: "edge-leaf.key"} {
		keys.Servers[name], err = os.ReadFile(w.path("pki/agents/" + file))
		require.NoError(t, err)
	}
	places := append([]natsservers.Place{w.place(t, "intruder")}, w.places...)
	for i, p := range places {
		places[i].Dir = w.path("around/" + p.Name) // those that run have their own
	}
	paths, err := natsservers.Write(keys, places...)
	require.NoError(t, err)
	program, err := stack.NATSServer(ctx, t.Output())
	require.NoError(t, err)
	intruder := stack.NewProcess(stack.ProcessConfig{Name: "intruder", Path: program, Args: []string{"--config", paths[0]}, Log: w.path("intruder.log")})
	t.Cleanup(intruder.Kill)
	require.NoError(t, intruder.Start(ctx))

	refused := regexp.MustCompile(`TLS route handshake error: certificate not pinned`)
	require.NoError(t, stack.Poll(ctx, 20*time.Millisecond, func(context.Context) error {
		said, err := os.ReadFile(w.nodes[0].Log())
		if err == nil && !refused.Match(said) {
			err = errors.New("nobody has been refused")
		}
		return err
	}))
	said, err := os.ReadFile(w.nodes[0].Log())
	require.NoError(t, err)
	require.NotRegexp(t, `Route connection created.*intruder|JetStream cluster new.*intruder`, string(said))
}
