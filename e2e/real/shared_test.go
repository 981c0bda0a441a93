package real

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

// TestShared plays a spoke that reaches no Git and has neither a repo-server nor a Redis: its
// application-controller uses those of the hub, by way of the agent.
func TestShared(t *testing.T) {
	inTurn(t, 2)
	w := newWorldBy(t, nil, nil,
		stack.ClusterConfig{Name: "hub", Server: true, RedisProxy: true, ApplicationNamespaces: []string{"edge-*"}},
		stack.ClusterConfig{Name: "spoke-1", ArgoCD: true, Shared: true},
	)
	a := w.agent(t, "edge-1")
	v := w.look(t, a, a.hub, a.spoke, "shared")
	require.Nil(t, a.spoke.Process(stack.RepoServer))
	require.Nil(t, a.spoke.Process(stack.Redis))
	v.says(t, []string{"Deployment/web", "Pod/" + v.pods(t)[0].Name}, "get", "--output", "tree=detailed")
	v.commit(t, "first")
	a.stop(t)
	require.NoError(t, a.Start(t.Context()))
	v.commit(t, "second")
	w.principal.stop(t)
	require.NoError(t, w.principal.Start(t.Context()))
	v.commit(t, "third")
	w.audited(t, false)
	w.end(t)
}

// commit changes what is in Git, and waits until the spoke has it.
func (v *view) commit(t *testing.T, greeting string) {
	t.Helper()
	_, err := v.repo.Commit(t.Context(), map[string]string{stack.AppPath + "/greeting.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: greeting}\ndata: {text: %s}\n", greeting)})
	require.NoError(t, err)
	asked := time.Time{}
	took := within(t, time.Minute, func(ctx context.Context) error {
		if time.Since(asked) > 10*time.Second { // one that met a server which was just lost is forgotten
			v.spoke.patch(t, v.name, annotated("argocd.argoproj.io/refresh", "normal"))
			asked = time.Now()
		}
		is, err := v.spoke.Dynamic().Resource(configMaps).Namespace(v.name).Get(ctx, "greeting", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return equal(greeting, at(is, "data", "text"))
	})
	t.Logf("the spoke has what was committed %.1f s later", took.Seconds())
}
