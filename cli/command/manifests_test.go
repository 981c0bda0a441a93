package command

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func manifest[T any](t *testing.T, path ...string) (out T) {
	text, err := os.ReadFile(filepath.Join(append([]string{"..", "..", "deploy"}, path...)...))
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(text, &out))
	return out
}

// manifestAnyway is manifest for a type that has not all fields.
func manifestAnyway[T any](t *testing.T, path ...string) (out T) {
	text, err := os.ReadFile(filepath.Join(append([]string{"..", "..", "deploy"}, path...)...))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &out))
	return out
}

// What deploy/ says in manifests must be what the programs understand, and every setting
// there must reach them.
func TestManifestsFitThePrograms(t *testing.T) {
	for folder, command := range map[string]*cli.Command{"principal": principalCommand(), "agent": agentCommand()} {
		t.Run(folder, func(t *testing.T) {
			settings := manifest[corev1.ConfigMap](t, folder, "params.yaml")
			text, err := os.ReadFile(filepath.Join("..", "..", "deploy", folder, "params.yaml"))
			require.NoError(t, err)
			pod := manifest[appsv1.Deployment](t, folder, "deployment.yaml").Spec.Template.Spec
			container := pod.Containers[0]
			require.Equal(t, []string{command.Name}, container.Args)

			var unused []string
			for key := range settings.Data {
				unused = append(unused, key)
			}
			given := map[string]string{} // by flag
			for _, e := range container.Env {
				if secret := e.ValueFrom.SecretKeyRef; secret != nil { // Argo CD's own
					require.Equal(t, "argocd-redis/auth", secret.Name+"/"+secret.Key)
					require.True(t, *secret.Optional)
					require.Equal(t, "redis-password", flagOf(t, command, e.Name))
					continue
				}
				from := e.ValueFrom.ConfigMapKeyRef
				require.Equal(t, settings.Name, from.Name)
				require.True(t, *from.Optional, "what is left out has its default")
				value, ok := settings.Data[from.Key]
				if !ok {
					require.Contains(t, string(text), "# "+from.Key+": ", "it is explained, if it is not set")
					continue
				}
				unused = slices.DeleteFunc(unused, func(k string) bool { return k == from.Key })
				given[flagOf(t, command, e.Name)] = value
			}
			require.Empty(t, unused)
			require.Equal(t, settings.Namespace, given["namespace"])
			require.Equal(t, given["healthz-port"], strconv.Itoa(int(portNamed(t, container, "healthz"))))
			require.Equal(t, given["metrics-port"], strconv.Itoa(int(portNamed(t, container, "metrics"))))
			require.Equal(t, probed(container.StartupProbe), "/startupz healthz")
			require.Equal(t, probed(container.LivenessProbe), "/livez healthz")
			require.Equal(t, probed(container.ReadinessProbe), "/readyz healthz")
			require.Greater(t, float64(*pod.TerminationGracePeriodSeconds), grace.Seconds(), "a pod has more patience than the program")
			require.Contains(t, mountsOf(container), defaultOf(t, command, "nats-store-dir"))
			if folder == "principal" {
				service := manifest[corev1.Service](t, folder, "service.yaml")
				for i, flag := range []string{"nats-leaf-listen", "grpc-listen"} {
					require.Equal(t, given[flag], ":"+strconv.Itoa(int(portNamed(t, container, service.Spec.Ports[i].TargetPort.String()))))
				}
				live := manifest[corev1.Service](t, folder, "resource-proxy.yaml")
				require.Equal(t, given["resource-proxy-listen"], ":"+strconv.Itoa(int(portNamed(t, container, live.Spec.Ports[0].TargetPort.String()))))
				require.Equal(t, defaultOf(t, command, "resource-proxy-address"), fmt.Sprintf("%s:%d", live.Name, live.Spec.Ports[0].Port))
				require.Equal(t, manifest[corev1.ConfigMap](t, "agent", "params.yaml").Data["agent.server.port"], strconv.Itoa(int(service.Spec.Ports[0].Port)))
			}
		})
	}
}

func flagOf(t *testing.T, c *cli.Command, variable string) string {
	for _, f := range c.Flags {
		if d, ok := f.(cli.DocGenerationFlag); ok && slices.Contains(d.GetEnvVars(), variable) {
			return f.Names()[0]
		}
	}
	t.Fatalf("no flag has the variable %s", variable)
	return ""
}

func defaultOf(t *testing.T, c *cli.Command, flag string) string {
	for _, f := range c.Flags {
		if d, ok := f.(cli.DocGenerationFlag); ok && f.Names()[0] == flag {
			return strings.Trim(d.GetDefaultText(), `"`)
		}
	}
	t.Fatalf("there is no flag %s", flag)
	return ""
}

func portNamed(t *testing.T, c corev1.Container, name string) int32 {
	i := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return c.Ports[i].ContainerPort
}

func probed(p *corev1.Probe) string { return p.HTTPGet.Path + " " + p.HTTPGet.Port.String() }

func mountsOf(c corev1.Container) (paths []string) {
	for _, m := range c.VolumeMounts {
		paths = append(paths, m.MountPath)
	}
	return paths
}
