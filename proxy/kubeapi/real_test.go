package kubeapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/portforward"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/e2e/stack/stacktest"
)

// TestARealAPIServer does with a real API server, and a kubelet of the test's behind it, what
// Argo CD and kubectl do.
func TestARealAPIServer(t *testing.T) {
	c := stacktest.Start(t, stack.Config{Clusters: []stack.ClusterConfig{{Name: "spoke"}}}).Cluster("spoke")
	require.NoError(t, c.Namespace(t.Context(), "x"))
	w := makeWorld(t, nil, c.RESTConfig(), "a")
	t.Run("Objects", w.objects)
	t.Run("Lists", w.lists)
	node := httptest.NewUnstartedServer(kubelet{})
	node.Config.ErrorLog = quiet()
	node.StartTLS()
	t.Cleanup(node.Close)
	w.makePod(node.Listener.Addr())
	t.Run("Logs", w.logs)
	t.Run("Exec", func(*testing.T) { w.requireExec() })
	t.Run("PortForward", func(t *testing.T) {
		tunnel, err := portforward.NewSPDYOverWebsocketDialer(w.of("portforward"), w.config("a"))
		require.NoError(t, err)
		w.requireForward(func(stop, ready chan struct{}) (*portforward.PortForwarder, error) {
			return portforward.NewOnAddresses(tunnel, loopback, anyTo80, stop, ready, io.Discard, io.Discard)
		})
	})
}

// objects makes an object, changes it in every way, and has it watched meanwhile.
func (w *world) objects(t *testing.T) {
	set := w.clientset("a")
	_, resources, err := set.Discovery().ServerGroupsAndResources()
	require.NoError(t, err)
	require.NotEmpty(t, resources)
	maps := set.CoreV1().ConfigMaps("x")
	events, err := maps.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=one"})
	require.NoError(t, err)
	defer events.Stop()
	_, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{})
	require.True(t, apierrors.IsAlreadyExists(err), err)
	require.Equal(t, watch.Added, (<-events.ResultChan()).Type)
	for i, patch := range []struct {
		kind types.PatchType
		text string
		how  metav1.PatchOptions
	}{
		{types.MergePatchType, `{"data":{"k":"0"}}`, metav1.PatchOptions{}},
		{types.JSONPatchType, `[{"op":"replace","path":"/data/k","value":"1"}]`, metav1.PatchOptions{}},
		{types.StrategicMergePatchType, `{"data":{"k":"2"}}`, metav1.PatchOptions{}},
		{types.ApplyPatchType, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"},"data":{"k":"3"}}`, metav1.PatchOptions{FieldManager: "test", Force: new(true)}},
	} {
		_, err = maps.Patch(t.Context(), "one", patch.kind, []byte(patch.text), patch.how)
		require.NoError(t, err, patch.kind)
		e := <-events.ResultChan()
		require.Equal(t, watch.Modified, e.Type)
		require.Equal(t, fmt.Sprint(i), e.Object.(*corev1.ConfigMap).Data["k"])
	}
	require.NoError(t, maps.Delete(t.Context(), "one", metav1.DeleteOptions{}))
	require.Equal(t, watch.Deleted, (<-events.ResultChan()).Type)
	_, err = maps.Get(t.Context(), "one", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), err)
}

// lists reads a list in pieces.
func (w *world) lists(t *testing.T) {
	set := w.clientset("a")
	for i := range 5 {
		_, err := set.CoreV1().Secrets("x").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", i)}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	var names []string
	next := ""
	for {
		piece, err := set.CoreV1().Secrets("x").List(t.Context(), metav1.ListOptions{Limit: 2, Continue: next})
		require.NoError(t, err)
		for _, s := range piece.Items {
			names = append(names, s.Name)
		}
		if next = piece.Continue; next == "" {
			break
		}
	}
	require.Equal(t, []string{"s0", "s1", "s2", "s3", "s4"}, names)
}

// makePod has a pod run on a node whose kubelet is at an address.
func (w *world) makePod(kubelet net.Addr) {
	t, set := w.t, w.clientset("a")
	host, port, err := net.SplitHostPort(kubelet.String())
	require.NoError(t, err)
	number, err := strconv.Atoi(port)
	require.NoError(t, err)
	node, err := set.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	_, err = set.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	require.NoError(t, err)
	_, err = set.CoreV1().Pods("x").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "y"},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// logs reads a log whole, and follows one for a while.
func (w *world) logs(t *testing.T) {
	pods := w.clientset("a").CoreV1().Pods("x")
	all, err := pods.GetLogs("y", &corev1.PodLogOptions{}).DoRaw(t.Context())
	require.NoError(t, err)
	require.True(t, bytes.Equal(line, all), "%d bytes", len(all))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	follow, err := pods.GetLogs("y", &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	require.NoError(t, err)
	defer follow.Close()
	some := make([]byte, 3*len(line))
	_, err = io.ReadFull(follow, some)
	require.NoError(t, err)
	require.True(t, bytes.Equal(bytes.Repeat(line, 3), some))
}
