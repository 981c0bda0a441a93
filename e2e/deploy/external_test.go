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

// commands are typed at the top of a checkout; deploy/nats/README.md has them. What is in onLoopback is
// for this machine.
const (
	commands = `
argocd-agentctl pki init
argocd-agentctl pki issue principal --dns principal.example.com
argocd-agentctl nats init --dns nats.example.com
kubectl apply -k deploy/overlays/nats-external
`
	onLoopback = `argocd-agentctl nats init --ip 127.0.0.1 --renew`
)

// testServersElsewhere installs a principal whose NATS servers are elsewhere, as it is written, and
// runs what the pods would run: with the files that they are given, the keys and certificates that were
// made, and the rights that are granted. The principal becomes ready.
func testServersElsewhere(t *testing.T, s *stack.Stack, hub *stack.Cluster) {
	bin := built(t, "argocd-agent", "argocd-agentctl")
	programs := map[string]string{"argocd-agentctl": filepath.Join(bin, "argocd-agentctl"), "kubectl": s.Binaries().Path("kubectl")}
	typeIn(t, commands, programs, "KUBECONFIG="+hub.Kubeconfig())
	servers := read[appsv1.StatefulSet](t, hub, "apps/v1/statefulsets", "argocd-agent-nats").Spec.Template.Spec
	principal := read[appsv1.Deployment](t, hub, "apps/v1/deployments", "argocd-agent-principal").Spec.Template.Spec
	theirs, own := mounted(t, hub, servers, "/etc/nats"), mounted(t, hub, principal, "/app/config/nats")
	params := read[corev1.ConfigMap](t, hub, "v1/configmaps", "argocd-agent-params").Data
	requireNamed(t, theirs["tls.crt"], own["ca.crt"], params["principal.nats.url"], theirs["peers.conf"])

	typeIn(t, onLoopback, programs, "KUBECONFIG="+hub.Kubeconfig())
	urls := startServers(t, s, servers, mounted(t, hub, servers, "/etc/nats"))
	startPrincipal(t, s, hub, filepath.Join(bin, "argocd-agent"), principal, own, map[string]string{
		"principal.nats.url": strings.Join(urls, ","), "principal.metrics.port": "0", "principal.admin.listen": "",
		"principal.redis.server.address": "", "principal.redis.proxy.listen": "",
	})
}

// requireNamed expects that the servers' certificate is good, by a CA, for the names by which agents,
// the principal and the servers find them.
func requireNamed(t *testing.T, certificate, ca, urls, peers string) {
	hosts := []string{outside}
	for text := range strings.SplitSeq(urls, ",") {
		u, err := url.Parse(text)
		require.NoError(t, err)
		hosts = append(hosts, u.Hostname())
	}
	for _, route := range regexp.MustCompile(`nats-route://([^:]+):`).FindAllStringSubmatch(peers, -1) {
		hosts = append(hosts, route[1])
	}
	require.Len(t, hosts, 7)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(ca)))
	block, _ := pem.Decode([]byte(certificate))
	parsed, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	for _, host := range hosts {
		_, err := parsed.Verify(x509.VerifyOptions{Roots: roots, DNSName: host})
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

// built builds some of the product's programs, and returns the folder that they are in.
func built(t *testing.T, programs ...string) string {
	t.Helper()
	folder := t.TempDir() + string(filepath.Separator)
	args := []string{"build", "-o", folder}
	for _, p := range programs {
		args = append(args, "./cli/"+p)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = filepath.Join("..", "..")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	return folder
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
