package deploy

import (
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

// outside is where agents reach the NATS servers.
const outside = "nats.example.com"

// commands are typed at the top of a checkout; deploy/nats/README.md has them.
const commands = `
argocd-agentctl pki init
argocd-agentctl nats init --dns nats.example.com
kubectl apply -k deploy/overlays/nats-external
`

// testServersElsewhere installs a principal whose NATS servers are elsewhere, as it is written, and
// holds that each pod is given what it asks for: nats-server takes its configuration, with the keys and
// certificates that were made, and these are good for the names by which everybody finds the servers.
func testServersElsewhere(t *testing.T, s *stack.Stack, hub *stack.Cluster) {
	typeIn(t, commands, map[string]string{
		"argocd-agentctl": built(t, "argocd-agentctl"), "kubectl": s.Binaries().Path("kubectl"),
	}, "KUBECONFIG="+hub.Kubeconfig())

	servers := read[appsv1.StatefulSet](t, hub, "apps/v1/statefulsets", "argocd-agent-nats").Spec.Template.Spec
	theirs := mounted(t, hub, servers, "/etc/nats")
	takenByServer(t, servers.Containers[0], theirs)

	principal := read[appsv1.Deployment](t, hub, "apps/v1/deployments", "argocd-agent-principal").Spec.Template.Spec
	own := mounted(t, hub, principal, "/app/config/nats")
	named := 0
	for _, e := range principal.Containers[0].Env {
		if file, is := strings.CutPrefix(e.Value, "/app/config/nats/"); is {
			require.NotEmpty(t, own[file], e.Name)
			named++
		}
	}
	require.Equal(t, 5, named)

	params := read[corev1.ConfigMap](t, hub, "v1/configmaps", "argocd-agent-params").Data
	hosts := []string{outside}
	for text := range strings.SplitSeq(params["principal.nats.url"], ",") {
		u, err := url.Parse(text)
		require.NoError(t, err)
		hosts = append(hosts, u.Hostname())
	}
	for _, route := range regexp.MustCompile(`nats-route://([^:]+):`).FindAllStringSubmatch(theirs["peers.conf"], -1) {
		hosts = append(hosts, route[1])
	}
	require.Len(t, hosts, 7)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(own["ca.crt"])))
	block, _ := pem.Decode([]byte(theirs["tls.crt"]))
	certificate, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	for _, host := range hosts {
		_, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: host})
		require.NoError(t, err, host)
	}
}

// typeIn runs commands at the top of the checkout, by programs that it is told.
func typeIn(t *testing.T, lines string, programs map[string]string, env ...string) {
	t.Helper()
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		words := strings.Fields(line)
		cmd := exec.CommandContext(t.Context(), programs[words[0]], words[1:]...)
		cmd.Dir, cmd.Env = filepath.Join("..", ".."), append(os.Environ(), env...)
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", line, output)
	}
}

// built builds one of the product's programs.
func built(t *testing.T, program string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), program)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cli/"+program)
	cmd.Dir = filepath.Join("..", "..")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	return path
}

// read reads an object of ours from an API server.
func read[T any](t *testing.T, c *stack.Cluster, resource, name string) (out T) {
	t.Helper()
	at := strings.LastIndex(resource, "/")
	version, err := schema.ParseGroupVersion(resource[:at])
	require.NoError(t, err)
	u, err := c.Dynamic().Resource(version.WithResource(resource[at+1:])).Namespace(argocd).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &out))
	return out
}

// mounted returns the files that a pod finds in a folder, as its kubelet would: each from an object
// that is there.
func mounted(t *testing.T, c *stack.Cluster, pod corev1.PodSpec, folder string) map[string]string {
	files := map[string]string{}
	secret := func(name string) {
		for file, text := range read[corev1.Secret](t, c, "v1/secrets", name).Data {
			require.NotContains(t, files, file)
			files[file] = string(text)
		}
	}
	volume := ""
	for _, m := range pod.Containers[0].VolumeMounts {
		if m.MountPath == folder {
			volume = m.Name
		}
	}
	for _, v := range pod.Volumes {
		switch {
		case v.Name != volume:
		case v.Secret != nil:
			secret(v.Secret.SecretName)
		default:
			for _, source := range v.Projected.Sources {
				if source.Secret != nil {
					secret(source.Secret.Name)
					continue
				}
				for file, text := range read[corev1.ConfigMap](t, c, "v1/configmaps", source.ConfigMap.Name).Data {
					require.NotContains(t, files, file)
					files[file] = text
				}
			}
		}
	}
	require.NotEmpty(t, files, folder)
	return files
}

// takenByServer has nats-server look at the configuration that a pod has, as the pod would start it.
func takenByServer(t *testing.T, c corev1.Container, files map[string]string) {
	dir := t.TempDir()
	for name, text := range files {
		text = strings.ReplaceAll(text, "/etc/nats/", dir+"/")
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	program, err := stack.NATSServer(t.Context(), t.Output())
	require.NoError(t, err)
	require.Equal(t, []string{"nats-server"}, c.Command)
	args := []string{"-t"}
	for _, arg := range c.Args {
		args = append(args, strings.ReplaceAll(arg, "/etc/nats", dir))
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = []string{"POD_NAME=" + c.Name + "-0"}
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
}
