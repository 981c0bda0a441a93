package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/cli/reference"
	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/e2e/stack/stacktest"
)

// TestGettingStarted types what the page of this name shows, and that of transports, as it stands there.
func TestGettingStarted(t *testing.T) {
	t.Run("one machine", func(t *testing.T) {
		typed(t, "getting-started.md", "one machine", nil, `./argocd-agentctl status -o json | grep '"connected": true'`)
	})
	t.Run("one machine, NATS", func(t *testing.T) {
		typed(t, "transports.md", "one machine, NATS", nil, `./argocd-agentctl status -o json | grep '"connected": true'`)
	})
	t.Run("real API servers", func(t *testing.T) {
		s := stacktest.Start(t, stack.Config{Clusters: []stack.ClusterConfig{ // as stack up has it, with less of Argo CD
			{Name: "hub", Server: true, RedisProxy: true, ApplicationNamespaces: []string{"edge-*"}},
			{Name: "spoke1", ArgoCD: true},
			{Name: "spoke2", CRDs: true},
		}})
		hub, spoke := s.Cluster("hub"), s.Cluster("spoke1")
		typed(t, "getting-started.md", "real API servers", []string{
			"PATH=" + filepath.Dir(s.Binaries().Path("kubectl")) + ":" + os.Getenv("PATH"),
			"KUBECONFIG=" + strings.Join([]string{hub.Kubeconfig(), spoke.Kubeconfig(), s.Cluster("spoke2").Kubeconfig()}, ":"),
			"HUB_REDIS=" + hub.RedisAddress(), "SPOKE1_REDIS=" + spoke.RedisAddress(), "SPOKE2_REDIS=", "PROXY_REDIS=" + hub.RedisProxyAddress(),
		}, `kubectl --context hub -n edge-2 get application gateway && kubectl --context spoke1 -n argocd get application guestbook && ./argocd-agentctl verify`)
	})
}

// again begins a script in which a command that fails is tried for a while, as people do who
// have started something a moment ago, and in which nothing is left running.
const again = `set -e
trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
again() { for i in $(seq 120); do "$@" && return; sleep 0.25; done; echo "in vain: $*" >&2; return 1; }
`

// typed runs the blocks of commands that a page has under a name, and then what shows that
// it has worked. The programs are those of this test.
func typed(t *testing.T, file, name string, env []string, proof string) {
	page, err := os.ReadFile(filepath.Join("..", "..", "deploy", "docs", file))
	require.NoError(t, err)
	script, built := again, false
	for _, b := range reference.Read(string(page)).Blocks {
		if b.Mark != "run: "+name {
			continue
		}
		for line := range strings.Lines(strings.ReplaceAll(b.Text, "\\\n", " ")) {
			switch {
			case strings.HasPrefix(line, "go build -o . ./cli/argocd-agent ./cli/argocd-agentctl"):
				line = "ln -s $(command -v argocd-agent) $(command -v argocd-agentctl) $(command -v nats-server) .\n"
				built = true
			case strings.HasPrefix(line, "export ") || strings.HasSuffix(line, "&\n"):
			default:
				line = "again " + line
			}
			script += line
		}
	}
	require.True(t, built, "the page has no such block")
	dir := t.TempDir()
	deploy, err := filepath.Abs(filepath.Join("..", "..", "deploy"))
	require.NoError(t, err)
	require.NoError(t, os.Symlink(deploy, filepath.Join(dir, "deploy")))
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script+"again sh -c '"+strings.ReplaceAll(proof, "'", `'"'"'`)+"'\n")
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), ports...), env...)
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	t.Logf("%s", output)
}

// ports keeps the programs from those that may be others' on the machine of a test.
var ports = []string{
	"ARGOCD_PRINCIPAL_HEALTH_CHECK_PORT=0", "ARGOCD_PRINCIPAL_METRICS_PORT=0",
	"ARGOCD_AGENT_HEALTH_CHECK_PORT=0", "ARGOCD_AGENT_METRICS_PORT=0",
}
