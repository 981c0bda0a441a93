package command

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"
	appsv1 "k8s.io/api/apps/v1"
)

// Why a flag is no setting in deploy/. Whoever needs it in spite of that gives the Deployment its
// variable.
const (
	inCluster = "the objects are those of the cluster that the pod runs in"
	named     = "the Role lets the program read Secrets of these names alone"
	mounted   = "it is of use with what is mounted besides, or with a Secret"
	onVolume  = "it is where the Deployment mounts the volume"
	settled   = "what it is is right; to look closely, and for tests"
)

// unset are the flags that no setting reaches, of either program.
var unset = map[string]string{
	"config":     "these settings are in its place",
	"kubeconfig": inCluster, "kubecontext": inCluster, "agents-file": inCluster, "blocklist-file": inCluster,
	"backend": inCluster, "backend-nats-url": inCluster, "backend-nats-bucket": inCluster, "backend-nats-creds": inCluster,
	"backend-nats-ca": inCluster, "backend-nats-cert": inCluster, "backend-nats-key": inCluster,
	"tls-secret-name": named, "tls-ca-secret-name": named, "root-ca-secret-name": named, "jwt-secret-name": named,
	"resource-proxy-secret-name": named, "resource-proxy-ca-secret-name": named,
	"tls-cert": mounted, "tls-key": mounted, "root-ca-path": mounted, "tls-client-cert": mounted, "tls-client-key": mounted,
	"jwt-key": mounted, "resource-proxy-cert-path": mounted, "resource-proxy-key-path": mounted, "resource-proxy-ca-path": mounted,
	"redis-tls-enabled": mounted, "redis-ca-path": mounted, "redis-tls-ca-path": mounted, "redis-creds-dir-path": mounted, "redis-username": mounted,
	"spiffe-endpoint-socket": mounted, "nats-agents-seed": mounted,
	"nats-store-dir": onVolume, "state-dir": onVolume,
	"nats-monitor-listen": settled, "resync-tick": settled,
	"pprof-listen": "pprof-port says it",
}

// Every flag is a setting in deploy/, or there is a reason why it is none.
func TestEveryFlagIsASetting(t *testing.T) {
	folders := map[*cli.Command][]string{
		principalCommand(): {"principal", filepath.Join("principal", "nats"), filepath.Join("principal", "nats", "operator")},
		agentCommand():     {"agent"},
	}
	left := map[string]bool{}
	for command, folders := range folders {
		reached := map[string]bool{}
		for _, folder := range folders {
			for _, e := range manifestAnyway[appsv1.Deployment](t, folder, "deployment.yaml").Spec.Template.Spec.Containers[0].Env {
				reached[flagOf(t, command, e.Name)] = true
			}
		}
		for _, f := range command.Flags {
			if name := f.Names()[0]; !reached[name] {
				left[name] = true
				require.NotEmpty(t, unset[name], "%s of %s: have deployment.yaml read it from params.yaml, or say here why not", name, command.Name)
			}
		}
	}
	for name := range unset {
		require.True(t, left[name], "%s is a setting, or is not there", name)
	}
}
