package hybrid_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/principal/hybrid"
)

var update = flag.Bool("update", false, "write the table in testdata anew")

// TestCheck prints which hubs are refused, and in which words.
func TestCheck(t *testing.T) {
	controller := func(version string, namespaces ...string) []hybrid.Controller {
		return []hybrid.Controller{{Name: "StatefulSet argocd/argocd-application-controller", Version: version, Namespaces: namespaces}}
	}
	agents := []string{"edge-2", "edge-1"}
	var many []string
	for i := range 12 {
		many = append(many, fmt.Sprintf("edge-%02d", i))
	}
	var b strings.Builder
	for _, c := range []struct {
		about string
		hub   hybrid.Hub
	}{
		{"no controller", hybrid.Hub{Agents: agents}},
		{"no controller, destination mapping", hybrid.Hub{Destination: true}},
		{"only in its own namespace", hybrid.Hub{Controllers: controller("v2.14.21"), Agents: agents}},
		{"in others than agents'", hybrid.Hub{Controllers: controller("v2.14.21", "team-*", "/^apps$/"), Agents: agents}},
		{"in an agent's", hybrid.Hub{Controllers: controller("v2.14.21", "team-*", "edge-2"), Agents: agents}},
		{"in agents', by a glob", hybrid.Hub{Controllers: controller("v3.2.11", "edge-*"), Agents: agents}},
		{"in agents', by an expression", hybrid.Hub{Controllers: controller("v3.2.11", `/^((?!team).)*$/`), Agents: agents}},
		{"in those of many", hybrid.Hub{Controllers: controller("v2.14.21", "edge-*"), Agents: many}},
		{"in all, before there is an agent", hybrid.Hub{Controllers: controller("v2.14.21", "*")}},
		{"destination mapping", hybrid.Hub{Controllers: controller("v2.14.21"), Destination: true}},
		{"a version that leaves agents' clusters alone", hybrid.Hub{Controllers: controller("v3.5.0", "*"), Agents: agents}},
		{"and in destination mapping", hybrid.Hub{Controllers: controller("3.10.1-rc1+abc"), Destination: true}},
		{"and to come", hybrid.Hub{Controllers: controller("v4.0.0", "*")}},
		{"a version that nearly does", hybrid.Hub{Controllers: controller("v3.4.9", "*")}},
		{"a version that is none", hybrid.Hub{Controllers: controller("latest", "*")}},
		{"a version that looks like one", hybrid.Hub{Controllers: controller("v3.x", "*")}},
		{"two controllers", hybrid.Hub{Agents: agents, Controllers: append(controller("v2.14.21", "edge-1"),
			hybrid.Controller{Name: "Deployment argocd/second", Version: "v2.14.21", Namespaces: []string{"edge-2"}})}},
	} {
		said := "accepted"
		if err := c.hub.Check(); err != nil {
			said = err.Error()
		}
		fmt.Fprintf(&b, "# %s\n%s\n\n", c.about, said)
	}
	got := strings.TrimSuffix(b.String(), "\n")
	if *update {
		require.NoError(t, os.WriteFile("testdata/check.txt", []byte(got), 0o644))
	}
	want, err := os.ReadFile("testdata/check.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}
