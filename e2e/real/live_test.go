package real

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

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

// lives plays what the users of the hub's Argo CD see and do of an Application. What is of an
// autonomous agent they see, and do not touch.
func lives(t *testing.T, v *view) {
	stories := []struct {
		name string
		play func(*testing.T, *view)
	}{{"Seen", seen}, {"Terminal", terminal}, {"Kubectl", kubectl}, {"KubectlGoesOn", lasting}, {"Touched", touched}, {"Away", liveAway}}
	if v.w.autonomous[v.a.name] {
		stories[4].play = untouched
	}
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) { s.play(t, v) })
	}
	v.says(t, nil, "sync") // what was deleted
	within(t, time.Minute, v.hub.is(v.name, healthy))
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
		"group": {o.group}, "version": {o.version}, "kind": {o.kind}, "project": {v.project()},
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
	within(t, patience, func(ctx context.Context) error { return v.shows(ctx, web, "example/web:1") })
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
	v.says(t, nil, "patch-resource", "--kind", "ConfigMap", "--resource-name", "settings", "--namespace", v.name,
		"--patch", `{"data":{"greeting":"patched"}}`, "--patch-type", "application/merge-patch+json")
	within(t, patience, func(ctx context.Context) error { return v.shows(ctx, settings, "patched") })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := v.hub.ArgoCD(ctx, "app", "actions", "run", v.hub.namespace+"/"+v.name, "restart", "--kind", "Deployment")
	require.NoError(t, err)
	require.Zero(t, r.Code, r.Stderr)
	within(t, patience, func(ctx context.Context) error { return v.shows(ctx, web, "kubectl.kubernetes.io/restartedAt") })
	v.says(t, nil, "delete-resource", "--kind", "ConfigMap", "--resource-name", "settings", "--namespace", v.name)
	within(t, patience, func(ctx context.Context) error {
		code, answer, err := v.ask(ctx, http.MethodGet, "resource", settings, nil, nil)
		if err == nil && code == http.StatusOK {
			err = fmt.Errorf("the ConfigMap is there: %s", answer)
		}
		return err
	})
}

// untouched: an autonomous agent's user decides what is done on his cluster.
func untouched(t *testing.T, v *view) {
	r, err := v.hub.ArgoCD(t.Context(), "app", "actions", "run", v.hub.namespace+"/"+v.name, "restart", "--kind", "Deployment")
	require.NoError(t, err)
	require.NotZero(t, r.Code)
	require.Contains(t, r.Stderr, "rule autonomous")
}

// shows checks that the live manifest of an object has a text.
func (v *view) shows(ctx context.Context, o object, text string) error {
	is, err := v.live(ctx, o)
	if err == nil && !strings.Contains(is, text) {
		err = fmt.Errorf("%s %s does not say %q: %s", o.kind, o.name, text, is)
	}
	return err
}

// project returns that of the Application on the hub.
func (v *view) project() string {
	if v.w.autonomous[v.a.name] {
		return v.a.name + "-default"
	}
	return "default"
}

// terminal: a shell on a pod by argocd-server's websocket. What pods of this cluster run is on
// this machine.
func terminal(t *testing.T, v *view) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	q := url.Values{
		"pod": {v.pods(t)[0].Name}, "container": {"web"}, "namespace": {v.name},
		"appName": {v.name}, "appNamespace": {v.hub.namespace}, "projectName": {v.project()},
	}
	c, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(v.hub.ArgoCDServerURL(), "http")+"/terminal?"+q.Encode(),
		&websocket.DialOptions{HTTPHeader: http.Header{"Cookie": {"argocd.token=none"}}})
	require.NoError(t, err)
	defer c.CloseNow()
	text, err := json.Marshal(fields{"operation": "stdin", "data": "echo $((6*7)) is said\n"})
	require.NoError(t, err)
	require.NoError(t, c.Write(ctx, websocket.MessageText, text))
	var printed strings.Builder
	for !strings.Contains(printed.String(), "42 is said") {
		_, text, err := c.Read(ctx)
		require.NoError(t, err, "after %q", printed.String())
		var said struct{ Operation, Data string }
		require.NoError(t, json.Unmarshal(text, &said))
		printed.WriteString(said.Data)
	}
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
	_, fault, err := v.kubectl(t, "", "get", "--raw", "/version")
	require.Error(t, err)
	require.Contains(t, fault, "agent "+v.a.name+" is not ")
	v.says(t, []string{"Deployment/web"}, "get", "--output", "tree=detailed")
	require.NoError(t, v.a.Start(t.Context()))
	took := within(t, patience, func(ctx context.Context) error { _, err := v.live(ctx, web); return err })
	t.Logf("live again %.1f s after the agent was started", took.Seconds())
}
