package command

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/argocd-fabric/argocd-agent/cli/natskeys"
)

// What has the principal use the servers in deploy/nats must be what it understands, and leave nothing
// that is refused with it.
func TestTheManifestsOfNATSFitThePrincipal(t *testing.T) {
	command, folder := principalCommand(), filepath.Join("principal", "nats")
	standard := manifest[corev1.ConfigMap](t, "principal", "params.yaml")
	given := manifest[corev1.ConfigMap](t, folder, "params.yaml")
	container := manifestAnyway[appsv1.Deployment](t, folder, "deployment.yaml").Spec.Template.Spec.Containers[0] // it also says what goes
	operated := manifestAnyway[appsv1.Deployment](t, filepath.Join(folder, "operator"), "deployment.yaml").Spec.Template.Spec.Containers[0]
	files := []string{natskeys.User, natskeys.Issuer, natskeys.Cert, natskeys.Key, natskeys.CA, natskeys.Creds, natskeys.SystemCreds, natskeys.XKey}
	flags := map[string]bool{natsURL: true, "nats-agents-seed": true} // that is the same key as --nats-callout-seed
	for _, e := range slices.Concat(container.Env, operated.Env) {
		flags[flagOf(t, command, e.Name)] = true
		if e.ValueFrom != nil {
			require.Contains(t, given.Data, e.ValueFrom.ConfigMapKeyRef.Key)
			continue
		}
		if e.Value == "" {
			continue // it goes
		}
		dir, file := filepath.Split(e.Value)
		require.Equal(t, container.VolumeMounts[0].MountPath, filepath.Clean(dir))
		require.Contains(t, files, file)
	}
	require.ElementsMatch(t, append(slices.Collect(maps.Keys(natsElsewhereOnly())), natsURL), slices.Collect(maps.Keys(flags)))

	// The settings that reach a flag of the principal's own server go.
	for _, e := range manifest[appsv1.Deployment](t, "principal", "deployment.yaml").Spec.Template.Spec.Containers[0].Env {
		if from := e.ValueFrom.ConfigMapKeyRef; from != nil && slices.Contains(slices.Collect(maps.Keys(natsHereOnly())), flagOf(t, command, e.Name)) {
			require.Contains(t, standard.Data, from.Key)
			gone, is := given.Data[from.Key]
			require.True(t, is, from.Key)
			require.Empty(t, gone, from.Key)
		}
	}
}

// The servers' pods mount what their configuration includes, and listen where Services lead.
func TestTheManifestsOfNATSFitEachOther(t *testing.T) {
	type generator struct {
		Name  string   `json:"name"`
		Files []string `json:"files"`
	}
	type kustomization struct {
		ConfigMaps []generator `json:"configMapGenerator"`
	}
	text := manifestAnyway[kustomization](t, "nats", "kustomization.yaml")
	require.ElementsMatch(t, []string{"server.conf", "accounts.conf", "cluster.conf", "node.conf", "peers.conf"}, text.ConfigMaps[0].Files)
	set := manifest[appsv1.StatefulSet](t, "nats", "statefulset.yaml")
	var config *corev1.ProjectedVolumeSource
	for _, v := range set.Spec.Template.Spec.Volumes {
		if v.Name == "config" {
			config = v.Projected
		}
	}
	require.Equal(t, text.ConfigMaps[0].Name, config.Sources[0].ConfigMap.Name)
	require.Equal(t, set.Spec.ServiceName, config.Sources[1].Secret.Name)
	require.Equal(t, []string{"--config", "/etc/nats/cluster.conf"}, set.Spec.Template.Spec.Containers[0].Args)
	for name, port := range map[string]int32{"nats-client": natsClientPort, "nats-leaf": natsPort, "nats-route": 6222} {
		require.Equal(t, port, portNamed(t, set.Spec.Template.Spec.Containers[0], name))
	}
}
