package real

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfig writes one at the resource proxy, with what Argo CD has in the cluster Secret.
func (v *view) kubeconfig(t *testing.T) string {
	t.Helper()
	secret, err := v.hub.Dynamic().Resource(secrets).Namespace(argocd).Get(t.Context(), "cluster-"+v.a.name, metav1.GetOptions{})
	require.NoError(t, err)
	data, _ := at(secret, "data").(fields)
	read := func(key string) []byte {
		encoded, _ := data[key].(string)
		text, err := base64.StdEncoding.DecodeString(encoded)
		require.NoError(t, err)
		return text
	}
	var connection struct {
		BearerToken     string
		TLSClientConfig struct {
			CAData   []byte
			CertData []byte
			KeyData  []byte
		}
	}
	require.NoError(t, json.Unmarshal(read("config"), &connection))
	server, _, _ := strings.Cut(string(read("server")), "?")
	c := api.NewConfig()
	c.Clusters["spoke"] = &api.Cluster{Server: server, CertificateAuthorityData: connection.TLSClientConfig.CAData}
	c.AuthInfos["spoke"] = &api.AuthInfo{
		Token:                 connection.BearerToken,
		ClientCertificateData: connection.TLSClientConfig.CertData, ClientKeyData: connection.TLSClientConfig.KeyData,
	}
	c.Contexts["spoke"] = &api.Context{Cluster: "spoke", AuthInfo: "spoke", Namespace: v.name}
	c.CurrentContext = "spoke"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*c, file))
	return file
}

// kubectl: the real one at the resource proxy gets what is managed, follows logs, and runs
// commands whose end it sees; what is not managed, or nobody's to see, it is refused by a rule.
func kubectl(t *testing.T, v *view) {
	pod := v.pods(t)[0].Name
	out, fault, err := v.kubectl(t, "", "get", "deployment", "web", "-o", "name")
	require.NoError(t, err, fault)
	require.Equal(t, "deployment.apps/web\n", out)
	out, fault, err = v.kubectl(t, "", "logs", pod, "--tail", "3")
	require.NoError(t, err, fault)
	require.Equal(t, 3, strings.Count(out, "\n"), out)
	// The node of this cluster does not tell that the input ends, nor how a command has.
	out, fault, err = v.kubectl(t, "said\n", "exec", "-i", pod, "--", "sh", "-c", "read x; echo $x by hand")
	require.NoError(t, err, fault)
	require.Equal(t, "said by hand\n", out)
	is, err := v.spoke.Dynamic().Resource(configMaps).Namespace(v.name).Get(t.Context(), "settings", metav1.GetOptions{})
	require.NoError(t, err)
	const tracking = "argocd.argoproj.io/tracking-id" // what is applied without it is no longer the Application's
	applied := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","annotations":{%q:%q}},"data":{"more":"applied"}}`, tracking, is.GetAnnotations()[tracking])
	out, fault, err = v.kubectl(t, applied, "apply", "--server-side", "-f", "-")
	if v.w.autonomous[v.a.name] {
		require.Error(t, err, out)
		require.Contains(t, fault, "rule autonomous")
	} else {
		require.NoError(t, err, fault)
		within(t, patience, func(ctx context.Context) error { return v.shows(ctx, settings, "applied") })
	}
	for _, args := range [][]string{{"get", "pods"}, {"get", "configmap", "kube-root-ca.crt"}, {"delete", "configmap", "kube-root-ca.crt"}} {
		_, fault, err := v.kubectl(t, "", args...)
		require.Error(t, err, args)
		require.Contains(t, fault, "rule ", args)
	}
}

// lasting: commands that go on until they are ended: a log and a list that are followed, and a port of a
// pod that is one of this machine.
func lasting(t *testing.T, v *view) {
	pod := v.pods(t)[0].Name
	log := v.starts(t, "logs", "-f", pod, "--tail", "1")
	log.says(t, ".") // it follows
	line := fmt.Sprintf("followed at %d", time.Now().UnixNano())
	v.spoke.podSays(t, line)
	log.says(t, line)

	watch := v.starts(t, "get", "serviceaccounts", "-w", "--output-watch-events")
	watch.says(t, "ADDED +default ")
	client, err := kubernetes.NewForConfig(v.spoke.RESTConfig())
	require.NoError(t, err)
	_, err = client.CoreV1().ServiceAccounts(v.name).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "watched"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	watch.says(t, "ADDED +watched ")

	port := v.w.port(t)
	forward := v.starts(t, "port-forward", "pod/"+pod, fmt.Sprint(port, ":80"))
	forward.says(t, "Forwarding from 127.0.0.1")
	direct := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	answer, err := direct.Get(fmt.Sprintf("https://127.0.0.1:%d/version", port))
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Contains(t, string(text), "gitVersion", "it is the API server behind the pod's port")
}

// A command runs until the test ends.
type command struct {
	name  string
	lines chan string // what it prints
}

// starts starts kubectl.
func (v *view) starts(t *testing.T, args ...string) command {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	cmd := v.command(t, ctx, args...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	c := command{args[0], make(chan string)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(c.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case c.lines <- lines.Text():
			case <-ctx.Done():
			}
		}
		_ = cmd.Wait() // it is ended by us
	}()
	t.Cleanup(func() { stop(); <-ended })
	return c
}

// says waits until the command prints a line that matches.
func (c command) says(t *testing.T, pattern string) {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case line, goes := <-c.lines:
			require.True(t, goes, "kubectl %s has ended", c.name)
			if regexp.MustCompile(pattern).MatchString(line) {
				return
			}
		case <-limit:
			require.Fail(t, "kubectl "+c.name+" has not said "+pattern)
		}
	}
}

// command prepares the real kubectl, at the resource proxy.
func (v *view) command(t *testing.T, ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, v.w.stack.Binaries().Path("kubectl"), append([]string{"--kubeconfig", v.kubeconfig(t)}, args...)...)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	return cmd
}

// kubectl runs it to its end.
func (v *view) kubectl(t *testing.T, input string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, fault bytes.Buffer
	cmd := v.command(t, ctx, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &fault
	err = cmd.Run()
	return out.String(), fault.String(), err
}
