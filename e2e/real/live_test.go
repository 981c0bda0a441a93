package real

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

// A view is what the hub's Argo CD shows of one Application, and does with its objects, which
// are on a spoke that it does not reach but by way of the agent.
type view struct {
	w          *world
	a          *agent
	hub, spoke place  // of the Application
	name       string // its own, and that of the namespace of its objects
	repo       *stack.GitRepo
}

// look has an Application be deployed on a's spoke, and returns what is seen of it.
func (w *world) look(t *testing.T, a *agent, hub, spoke place, name string) *view {
	v := &view{w, a, hub, spoke, name, w.repo(t, a.name+"-"+name)}
	desired, owner := spec(a.name, v.repo.URL(), name), hub
	delete(desired["syncPolicy"].(fields)["automated"].(fields), "selfHeal") // what is patched here stays
	if w.autonomous[a.name] {
		owner = spoke
		desired["destination"] = fields{"server": "https://kubernetes.default.svc", "namespace": name}
	}
	owner.create(t, application(name, desired))
	within(t, time.Minute, hub.is(name, healthy))
	return v
}

// argocd runs Argo CD's own CLI about the Application.
func (v *view) argocd(ctx context.Context, verb string, args ...string) (string, error) {
	r, err := v.hub.ArgoCD(ctx, append([]string{"app", verb, v.hub.namespace + "/" + v.name}, args...)...)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("argocd app %s: exit code %d: %s%s", verb, r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout, err
}

// says has Argo CD's CLI be asked until it says all texts.
func (v *view) says(t *testing.T, texts []string, verb string, args ...string) {
	t.Helper()
	within(t, patience, func(ctx context.Context) error {
		out, err := v.argocd(ctx, verb, args...)
		if err != nil {
			return err
		}
		for _, text := range texts {
			if !strings.Contains(out, text) {
				return fmt.Errorf("argocd app %s does not say %q: %s", verb, text, out)
			}
		}
		return nil
	})
}

// An object is one of the Application's, as the queries of argocd-server name it.
type object struct{ group, version, kind, name string }

var (
	settings = object{"", "v1", "ConfigMap", "settings"}
	web      = object{"apps", "v1", "Deployment", "web"}
)

// ask sends a request about an object to argocd-server.
func (v *view) ask(ctx context.Context, method, what string, o object, more url.Values, body any) (code int, answer []byte, err error) {
	q := url.Values{
		"appNamespace": {v.hub.namespace}, "namespace": {v.name}, "resourceName": {o.name},
		"group": {o.group}, "version": {o.version}, "kind": {o.kind}, "project": {"default"},
	}
	if v.w.autonomous[v.a.name] {
		q.Set("project", v.a.name+"-default")
	}
	for key, values := range more {
		q[key] = values
	}
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		sent = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, v.hub.ArgoCDServerURL()+"/api/v1/applications/"+v.name+"/"+what+"?"+q.Encode(), sent)
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer a.Body.Close()
	answer, err = io.ReadAll(a.Body)
	return a.StatusCode, answer, err
}

// live returns the manifest of an object as it is on the spoke, by argocd-server.
func (v *view) live(ctx context.Context, o object) (string, error) {
	code, answer, err := v.ask(ctx, http.MethodGet, "resource", o, nil, nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%d: %s", code, answer)
	}
	return string(answer), err
}

// pods returns the Application's pods, which are on the spoke.
func (v *view) pods(t *testing.T) []corev1.Pod {
	client, err := kubernetes.NewForConfig(v.spoke.RESTConfig())
	require.NoError(t, err)
	var pods []corev1.Pod
	within(t, patience, func(ctx context.Context) error {
		list, err := client.CoreV1().Pods(v.name).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil || len(list.Items) == 0 || list.Items[0].Status.Phase != corev1.PodRunning {
			return fmt.Errorf("%s has no pod that runs: %w", v.name, err)
		}
		pods = list.Items
		return nil
	})
	return pods
}

// seen: the tree, the live manifests, what differs from Git, events and logs.
func seen(t *testing.T, v *view) {
	pod := v.pods(t)[0].Name
	v.says(t, []string{"Deployment/web", "ReplicaSet/web-", "Pod/" + pod, "ConfigMap/settings"}, "get", "--output", "tree=detailed")
	v.says(t, []string{"greeting: hello"}, "manifests", "--source", "live")
	within(t, patience, func(ctx context.Context) error {
		text, err := v.live(ctx, web)
		if err == nil && !strings.Contains(text, "example/web:1") {
			err = fmt.Errorf("the live Deployment is %s", text)
		}
		return err
	})
	v.event(t, pod)
	out, err := v.argocd(t.Context(), "logs", "--tail", "5")
	require.NoError(t, err)
	require.Equal(t, 5, strings.Count(out, " of "+v.spoke.Name()), out)
	v.follow(t, pod)
	require.NoError(t, v.differs(t.Context(), ""))
	v.spoke.administer(t, v.name, "configmaps", "settings", fields{"data": fields{"greeting": "changed"}})
	within(t, patience, func(ctx context.Context) error { return v.differs(ctx, "greeting: changed") })
	v.spoke.administer(t, v.name, "configmaps", "settings", fields{"data": fields{"greeting": "hello"}})
	within(t, patience, func(ctx context.Context) error { return v.differs(ctx, "") })
}

// administer merges a patch into an object on a spoke, as its administrator.
func (p place) administer(t *testing.T, namespace, plural, name string, patch fields) {
	t.Helper()
	in := place{p.Cluster, namespace, p.kind}
	text, err := json.Marshal(patch)
	require.NoError(t, err)
	_, err = in.Dynamic().Resource(schema.GroupVersionResource{Version: "v1", Resource: plural}).Namespace(namespace).
		Patch(t.Context(), name, "application/merge-patch+json", text, metav1.PatchOptions{})
	require.NoError(t, err)
}

// differs checks what Argo CD's CLI says is different from Git: nothing, or something with
// this text.
func (v *view) differs(ctx context.Context, text string) error {
	r, err := v.hub.ArgoCD(ctx, "app", "diff", v.hub.namespace+"/"+v.name)
	switch {
	case err != nil:
		return err
	case text == "" && r.Code != 0, text != "" && (r.Code != 1 || !strings.Contains(r.Stdout, text)):
		return fmt.Errorf("argocd app diff: exit code %d, %q is not all: %s%s", r.Code, text, r.Stdout, r.Stderr)
	}
	return nil
}

// event has the spoke say something of a pod, which the hub shows.
func (v *view) event(t *testing.T, pod string) {
	client, err := kubernetes.NewForConfig(v.spoke.RESTConfig())
	require.NoError(t, err)
	p, err := client.CoreV1().Pods(v.name).Get(t.Context(), pod, metav1.GetOptions{})
	require.NoError(t, err)
	now := metav1.Now()
	_, err = client.CoreV1().Events(v.name).Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: "seen-"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: v.name, Name: pod, UID: p.UID},
		Reason:         "Seen", Message: "from afar", Type: corev1.EventTypeNormal, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	within(t, patience, func(ctx context.Context) error {
		code, answer, err := v.ask(ctx, http.MethodGet, "events", object{name: pod}, url.Values{
			"resourceName": {pod}, "resourceNamespace": {v.name}, "resourceUID": {string(p.UID)},
		}, nil)
		if err != nil || code != http.StatusOK || !bytes.Contains(answer, []byte("from afar")) {
			return fmt.Errorf("events: %d, %w: %s", code, err, answer)
		}
		return nil
	})
}

// follow has the CLI follow the log of a pod, which it ends as a user does; what is written
// meanwhile is seen.
func (v *view) follow(t *testing.T, pod string) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	q := url.Values{"appNamespace": {v.hub.namespace}, "namespace": {v.name}, "podName": {pod}, "follow": {"true"}, "tailLines": {"1"}, "container": {"web"}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.hub.ArgoCDServerURL()+"/api/v1/applications/"+v.name+"/logs?"+q.Encode(), nil)
	require.NoError(t, err)
	a, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer a.Body.Close()
	line := fmt.Sprintf("said at %d by %s", time.Now().UnixNano(), pod)
	lines := make(chan string)
	go func() {
		defer close(lines)
		for decoder := json.NewDecoder(a.Body); ; {
			var said struct{ Result struct{ Content string } }
			if decoder.Decode(&said) != nil {
				return
			}
			select {
			case lines <- said.Result.Content:
			case <-ctx.Done():
				return
			}
		}
	}()
	<-lines // it follows
	v.spoke.podSays(t, line)
	limit := time.After(patience)
	for {
		select {
		case said, open := <-lines:
			require.True(t, open, "the log ended")
			if strings.Contains(said, line) {
				return
			}
		case <-limit:
			require.Fail(t, "what is written now is not seen", line)
		}
	}
}

// podSays adds a line to the log that all pods of a cluster show.
func (p place) podSays(t *testing.T, line string) {
	f, err := os.OpenFile(p.PodLog(), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = fmt.Fprintf(f, "%s stdout F %s\n", time.Now().UTC().Format(time.RFC3339Nano), line)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// touched: what is changed, restarted and deleted from the hub.
func touched(t *testing.T, v *view) {
	before := v.pods(t)[0].Name
	v.says(t, nil, "patch-resource", "--kind", "ConfigMap", "--resource-name", "settings", "--namespace", v.name,
		"--patch", `{"data":{"greeting":"patched"}}`, "--patch-type", "application/merge-patch+json")
	within(t, patience, func(ctx context.Context) error {
		text, err := v.live(ctx, settings)
		if err == nil && !strings.Contains(text, "patched") {
			err = fmt.Errorf("the ConfigMap is %s", text)
		}
		return err
	})
	v.says(t, []string{"restart"}, "actions", "list", "--kind", "Deployment") // the CLI has these words in another order
	v.says(t, nil, "delete-resource", "--kind", "Pod", "--resource-name", before, "--namespace", v.name)
	within(t, patience, func(ctx context.Context) error {
		text, err := v.live(ctx, object{"", "v1", "Pod", before})
		if err == nil && !strings.Contains(text, "deletionTimestamp") {
			return fmt.Errorf("pod %s is there", before)
		}
		return nil
	})
}

// restarted has the action run that the UI calls restart.
func (v *view) restart(ctx context.Context) error {
	code, answer, err := v.ask(ctx, http.MethodPost, "resource/actions", web, nil, "restart")
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("restart: %d: %s", code, answer)
	}
	return err
}

// terminal has a shell on a pod by argocd-server's websocket, and returns what it prints.
func (v *view) terminal(t *testing.T, command, wanted string) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	project := "default"
	if v.w.autonomous[v.a.name] {
		project = v.a.name + "-default"
	}
	q := url.Values{"pod": {v.pods(t)[0].Name}, "container": {"web"}, "appName": {v.name}, "appNamespace": {v.hub.namespace}, "projectName": {project}, "namespace": {v.name}}
	c, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(v.hub.ArgoCDServerURL(), "http")+"/terminal?"+q.Encode(),
		&websocket.DialOptions{HTTPHeader: http.Header{"Cookie": {"argocd.token=none"}}})
	if err != nil {
		return err
	}
	defer c.CloseNow()
	say := func(operation, data string) error {
		text, err := json.Marshal(fields{"operation": operation, "data": data, "rows": 24, "cols": 80})
		if err != nil {
			return err
		}
		return c.Write(ctx, websocket.MessageText, text)
	}
	if err := say("stdin", command+"\n"); err != nil {
		return err
	}
	var printed strings.Builder
	for {
		_, text, err := c.Read(ctx)
		if err != nil {
			return fmt.Errorf("%w, after %q", err, printed.String())
		}
		var said struct{ Operation, Data string }
		if err := json.Unmarshal(text, &said); err != nil {
			return err
		}
		printed.WriteString(said.Data)
		if strings.Contains(printed.String(), wanted) {
			return nil
		}
	}
}

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

// kubectl runs the real one at the resource proxy.
func (v *view) kubectl(t *testing.T, input string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, v.w.stack.Binaries().Path("kubectl"), append([]string{"--kubeconfig", v.kubeconfig(t)}, args...)...)
	var out, fault bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &fault
	cmd.Env = []string{"HOME=" + t.TempDir()}
	err = cmd.Run()
	return out.String(), fault.String(), err
}

// liveAway: while the agent is not there, whoever asks is told so at once, and shown what was
// seen last; when it is back, all works again and nobody has restarted anything.
func liveAway(t *testing.T, v *view) {
	v.a.stop(t)
	within(t, patience, func(ctx context.Context) error {
		_, err := v.live(ctx, web)
		if err == nil {
			return fmt.Errorf("the agent is still there")
		}
		return nil
	})
	began := time.Now()
	_, err := v.live(t.Context(), web)
	require.ErrorContains(t, err, v.a.name)
	require.Less(t, time.Since(began), time.Second)
	_, fault, err := v.kubectl(t, "", "get", "deployment", "web")
	require.Error(t, err)
	require.Contains(t, fault, "is not connected")
	v.says(t, []string{"Deployment/web"}, "get", "--output", "tree=detailed")
	require.NoError(t, v.a.Start(t.Context()))
	took := within(t, patience, func(ctx context.Context) error { _, err := v.live(ctx, web); return err })
	t.Logf("live again %.1f s after the agent was started", took.Seconds())
}
