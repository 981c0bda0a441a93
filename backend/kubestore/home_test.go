package kubestore

import (
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func (c cluster) home(t *testing.T) *Home {
	h, err := NewHome(HomeConfig{REST: c.RESTConfig(), Namespace: c.namespace(), Log: zaptest.NewLogger(t)})
	require.NoError(t, err)
	return h
}

func TestIdentityIsMadeOnce(t *testing.T) {
	h := startCluster(t).home(t)
	told := make(chan string)
	const askers = 16
	for range askers {
		go func() {
			id, err := h.Identity(t.Context())
			if err != nil {
				id = err.Error()
			}
			told <- id
		}()
	}
	first := <-told
	require.Len(t, first, 36, "a UUID")
	for range askers - 1 {
		require.Equal(t, first, <-told)
	}
	maps := h.client.Resource(configMaps).Namespace(h.cfg.Namespace)
	u, err := maps.Get(t.Context(), "argocd-agent-principal-identity", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"principal-uid": first}, u.Object["data"])

	// One that was emptied is filled again, and what else is in it stays.
	_, err = maps.Patch(t.Context(), u.GetName(), types.MergePatchType, []byte(`{"data":{"principal-uid":null,"x":"y"}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	second, err := h.Identity(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	u, err = maps.Get(t.Context(), u.GetName(), metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"principal-uid": second, "x": "y"}, u.Object["data"])
}

func TestTLSSecrets(t *testing.T) {
	h := startCluster(t).home(t)
	_, err := h.TLS(t.Context(), "argocd-agent-ca")
	require.ErrorIs(t, err, fs.ErrNotExist)
	want := TLS{Certificate: []byte("cert\n"), Key: []byte("key\n"), CA: []byte("ca\n")}
	require.NoError(t, h.CreateTLS(t.Context(), "incomplete", TLS{Certificate: []byte("alone")}))
	_, err = h.TLS(t.Context(), "incomplete")
	require.ErrorContains(t, err, "tls.key")
	require.NotErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, h.CreateTLS(t.Context(), "argocd-agent-ca", want))
	got, err := h.TLS(t.Context(), "argocd-agent-ca")
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.ErrorIs(t, h.CreateTLS(t.Context(), "argocd-agent-ca", TLS{}), fs.ErrExist)

	want.Certificate, want.CA = []byte("another"), nil
	require.NoError(t, h.PutTLS(t.Context(), "argocd-agent-ca", want))
	require.NoError(t, h.PutTLS(t.Context(), "argocd-agent-client-tls", want))
	for _, name := range []string{"argocd-agent-ca", "argocd-agent-client-tls"} {
		got, err = h.TLS(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, want.Certificate, got.Certificate)
		require.Equal(t, want.Key, got.Key)
	}
	u, err := h.client.Resource(secrets).Namespace(h.cfg.Namespace).Get(t.Context(), "argocd-agent-ca", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "kubernetes.io/tls", u.Object["type"])
}

func TestRegistration(t *testing.T) {
	h := startCluster(t).home(t)
	name := h.cfg.Namespace + "-edge" // namespaces are the cluster's, and tests share it
	for _, err := range []error{
		h.DeleteAgent(t.Context(), name), func() error { _, err := h.Registration(t.Context(), name); return err }(),
		func() error { _, err := h.ChangeAgent(t.Context(), name, Change{Proxy: "p:1"}); return err }(),
	} {
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	require.NoError(t, h.CreateAgent(t.Context(), NewAgent{Agent: backend.Agent{Name: name, Mode: resource.Autonomous}, Proxy: "proxy:9090"}))
	r, err := h.Registration(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, backend.Agent{Name: name, Mode: resource.Autonomous}, r.Agent)
	require.Equal(t, "cluster-"+name, r.Secret)
	require.Equal(t, "https://proxy:9090?agentName="+name, r.Server)
	require.Empty(t, r.Labels)
	require.False(t, r.Since.IsZero())

	r, err = h.ChangeAgent(t.Context(), name, Change{Labels: map[string]string{"region": "north", "tier": "1"}})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"region": "north", "tier": "1"}, r.Labels)
	require.Equal(t, "https://proxy:9090?agentName="+name, r.Server)
	r, err = h.ChangeAgent(t.Context(), name, Change{Labels: map[string]string{"region": "south"}, Drop: []string{"tier", "never"}, Proxy: "other:1"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"region": "south"}, r.Labels)
	require.Equal(t, "https://other:1?agentName="+name, r.Server)

	// How it is reached is changed by itself, and nothing else with it.
	require.False(t, r.Connection.Proves())
	r, err = h.ChangeAgent(t.Context(), name, Change{Connection: &Connection{Token: "a.b.c", CA: []byte("PEM")}})
	require.NoError(t, err)
	require.Equal(t, Connection{Token: "a.b.c", CA: []byte("PEM")}, r.Connection)
	require.Equal(t, "https://other:1?agentName="+name, r.Server)
	r, err = h.ChangeAgent(t.Context(), name, Change{Labels: map[string]string{"region": "east"}})
	require.NoError(t, err)
	require.Equal(t, "a.b.c", r.Connection.Token)
	all, err := h.Registrations(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Registration{r}, all)

	// What makes it an agent's stays.
	for _, c := range []Change{{Labels: map[string]string{AgentModeLabel: "managed"}}, {Drop: []string{secretTypeLabel}}, {Drop: []string{AgentNameLabel}}} {
		_, err = h.ChangeAgent(t.Context(), name, c)
		require.ErrorContains(t, err, "says what the agent is, and stays")
	}
	agents, err := h.Agents(t.Context())
	require.NoError(t, err)
	require.Contains(t, agents, r.Agent)

	require.NoError(t, h.DeleteAgent(t.Context(), name))
	require.ErrorIs(t, h.DeleteAgent(t.Context(), name), fs.ErrNotExist)
	_, err = h.client.Resource(spaces).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err, "what is in its namespace stays")
}

func TestCreateAgent(t *testing.T) {
	c := startCluster(t)
	h := c.home(t)
	agent := func(name string, m resource.Mode) NewAgent {
		return NewAgent{Agent: backend.Agent{Name: name, Mode: m}, Proxy: "proxy:9090", Connection: Connection{Token: "a.b.c", CA: []byte("PEM")}}
	}
	fresh := agent(h.cfg.Namespace+"-edge", resource.Autonomous)
	require.NoError(t, h.CreateAgent(t.Context(), fresh))
	u, err := h.client.Resource(secrets).Namespace(h.cfg.Namespace).Get(t.Context(), "cluster-"+fresh.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"argocd.argoproj.io/secret-type":           "cluster",
		"argocd-agent.argoproj-labs.io/agent-name": fresh.Name,
		"argocd-agent.argoproj-labs.io/agent-mode": "autonomous",
	}, u.GetLabels())
	require.Equal(t, map[string]string{"argocd.argoproj.io/skip-reconcile": "true"}, u.GetAnnotations())
	require.Equal(t, map[string]any{
		"name":   encoded(fresh.Name),
		"server": encoded("https://proxy:9090?agentName=" + fresh.Name),
		"config": encoded(`{"bearerToken":"a.b.c","tlsClientConfig":{"caData":"UEVN"}}`),
	}, u.Object["data"])
	require.Equal(t, fresh.Name, c.labels(fresh.Name)[AgentNameLabel])
	require.ErrorIs(t, h.CreateAgent(t.Context(), fresh), fs.ErrExist)

	// A namespace that is there is taken only if that is wanted, and never from an agent.
	there := agent(c.namespace(), resource.Managed)
	require.ErrorContains(t, h.CreateAgent(t.Context(), there), "is no agent's")
	there.AdoptNamespace = true
	require.NoError(t, h.CreateAgent(t.Context(), there))
	require.Equal(t, there.Name, c.labels(there.Name)[AgentNameLabel])
	taken := agent(c.namespace(), resource.Managed)
	_, err = h.client.Resource(spaces).Patch(t.Context(), taken.Name, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"`+AgentNameLabel+`":"other"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	taken.AdoptNamespace = true
	require.ErrorContains(t, h.CreateAgent(t.Context(), taken), "is that of agent other")

	// One that has asked for it is marked so, and cannot be another by its labels.
	self := agent(h.cfg.Namespace+"-self", resource.Managed)
	self.Labels, self.SelfRegistered = map[string]string{"region": "north", AgentNameLabel: "other"}, true
	require.ErrorContains(t, h.CreateAgent(t.Context(), self), "says what the agent is, and stays")
	delete(self.Labels, AgentNameLabel)
	require.NoError(t, h.CreateAgent(t.Context(), self))
	r, err := h.Registration(t.Context(), self.Name)
	require.NoError(t, err)
	require.True(t, r.SelfRegistered)
	require.Equal(t, map[string]string{"region": "north"}, r.Labels)
	require.NoError(t, h.DeleteAgent(t.Context(), self.Name))

	for _, name := range []string{"", "UPPER", "a.b", "default", "kube-system", "argocd", h.cfg.Namespace, strings.Repeat("a", 64)} {
		require.ErrorContains(t, h.CreateAgent(t.Context(), agent(name, resource.Managed)), "no name for an agent")
	}
	agents, err := h.Agents(t.Context())
	require.NoError(t, err)
	require.Equal(t, []backend.Agent{{Name: there.Name}, {Name: fresh.Name, Mode: resource.Autonomous}}, byName(agents))
}

// byName puts an agent whose name is not derived from another's first.
func byName(agents []backend.Agent) []backend.Agent {
	if len(agents) == 2 && strings.HasSuffix(agents[0].Name, "-edge") {
		return []backend.Agent{agents[1], agents[0]}
	}
	return agents
}

func (c cluster) labels(namespace string) map[string]string {
	u, err := c.Dynamic().Resource(spaces).Get(c.t.Context(), namespace, metav1.GetOptions{})
	require.NoError(c.t, err)
	return u.GetLabels()
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func TestRegistryFollowsClusterSecrets(t *testing.T) {
	c := startCluster(t)
	core, logs := observer.New(zap.ErrorLevel)
	h, err := NewHome(HomeConfig{REST: c.RESTConfig(), Namespace: c.namespace(), Log: zap.New(core)})
	require.NoError(t, err)
	client := h.client.Resource(secrets).Namespace(h.cfg.Namespace)
	put := func(secret string, labels map[string]any) {
		_, err := client.Apply(t.Context(), secret, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": secret, "labels": labels},
		}}, metav1.ApplyOptions{FieldManager: "users", Force: true})
		require.NoError(t, err)
	}
	remove := func(secret string) { require.NoError(t, client.Delete(t.Context(), secret, metav1.DeleteOptions{})) }
	is := func(name, mode string) map[string]any {
		return map[string]any{secretTypeLabel: "cluster", AgentNameLabel: name, AgentModeLabel: mode}
	}
	told := make(chan []backend.Agent)
	run(t, func(ctx context.Context) error {
		return h.Registry().Watch(ctx, func(agents []backend.Agent) error {
			select {
			case told <- agents:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	})
	require.Empty(t, <-told, "there is none, and that is known")
	b, a := backend.Agent{Name: "b", Mode: resource.Managed}, backend.Agent{Name: "a", Mode: resource.Autonomous}
	put("cluster-b", is("b", "managed"))
	require.Equal(t, []backend.Agent{b}, <-told)
	put("repository", map[string]any{secretTypeLabel: "repository"})
	put("local", map[string]any{secretTypeLabel: "cluster"})
	put("odd", is("odd", "mixed"))
	put("worse", is("kube-system", "managed"))
	put("cluster-b-again", is("b", "autonomous"))
	put("cluster-a", is("a", "autonomous"))
	require.Equal(t, []backend.Agent{a, b}, <-told, "sorted, and without those that are wrong")
	a.Mode = resource.Managed
	put("cluster-a", is("a", "managed"))
	require.Equal(t, []backend.Agent{a, b}, <-told)
	remove("cluster-b")
	remove("cluster-b-again")
	for next := <-told; len(next) > 1; next = <-told { // the other of the two may come up in between
		require.Contains(t, next, a)
	}
	require.Len(t, logs.All(), 3, "each once")

	_, err = h.Agents(t.Context())
	require.ErrorContains(t, err, "mixed")

	failure := errors.New("no more")
	require.ErrorIs(t, h.Registry().Watch(t.Context(), func([]backend.Agent) error { return failure }), failure)
}

// TestHomeWaitsForNoAnswerForEver asks an API server that never answers.
func TestHomeWaitsForNoAnswerForEver(t *testing.T) {
	p := newProxy(t, &rest.Config{Host: "http://127.0.0.1:1"})
	p.fail(func(request) fault { return hang })
	h, err := NewHome(HomeConfig{REST: p.config(), Namespace: "argocd", Timeout: 100 * time.Millisecond, Log: zaptest.NewLogger(t)})
	require.NoError(t, err)
	_, err = h.Identity(t.Context())
	require.ErrorContains(t, err, "xceeded")
	_, err = h.TLS(t.Context(), "argocd-agent-principal-tls")
	require.ErrorContains(t, err, "xceeded")
	_, err = h.Agents(t.Context())
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
