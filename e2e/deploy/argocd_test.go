package deploy

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// argoCD returns Argo CD as its own manifests install it, with a component of ours.
func argoCD(t *testing.T, manifest, component string) (plain, with set) {
	t.Helper()
	module := map[string]string{"2": "github.com/argoproj/argo-cd/v2", "3": "github.com/argoproj/argo-cd/v3"}
	version := os.Getenv("STACK_ARGOCD")
	if version == "" {
		version = "2"
	}
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module[version])
	cmd.Dir = filepath.Join("..", "stack", "argocd"+version)
	output, err := cmd.Output()
	require.NoError(t, err)
	var downloaded struct{ Dir string }
	require.NoError(t, json.Unmarshal(output, &downloaded))
	text, err := os.ReadFile(filepath.Join(downloaded.Dir, "manifests", manifest))
	require.NoError(t, err)
	dir := t.TempDir()
	objects := strings.Split(string(text), "\n---\n")
	objects = slices.DeleteFunc(objects, func(o string) bool { return strings.Contains(o, "\nkind: CustomResourceDefinition\n") }) // long, and not ours
	require.NoError(t, os.WriteFile(filepath.Join(dir, manifest), []byte(strings.Join(objects, "\n---\n")), 0o600))
	const more = "namespace: argocd\n"
	return kustomization(t, dir, manifest, nil, more), kustomization(t, dir, manifest, []string{component}, more)
}

// changed returns which objects a component takes away and adds, and which it changes.
func changed(plain, with set) (gone, came, other []string) {
	for _, name := range slices.Sorted(maps.Keys(plain)) {
		if with[name] == nil {
			gone = append(gone, name)
		} else if !reflect.DeepEqual(plain[name].Object, with[name].Object) {
			other = append(other, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(with)) {
		if plain[name] == nil {
			came = append(came, name)
		}
	}
	return gone, came, other
}

func TestArgoCDOfTheControlPlane(t *testing.T) {
	plain, with := argoCD(t, "install.yaml", "argocd/hub")
	gone, came, other := changed(plain, with)
	require.Equal(t, []string{"StatefulSet argocd/argocd-application-controller"}, gone)
	require.Equal(t, []string{"NetworkPolicy argocd/argocd-agent-to-redis", "NetworkPolicy argocd/argocd-agent-to-repo-server"}, came)
	require.Equal(t, []string{"ConfigMap argocd/argocd-cmd-params-cm"}, other)
	principal := kustomized(t, filepath.Join(root, "principal"))
	host, port, ok := strings.Cut(as[corev1.ConfigMap](t, with, "ConfigMap argocd/argocd-cmd-params-cm").Data["redis.server"], ":")
	require.True(t, ok)
	require.Equal(t, port, strconv.Itoa(int(as[corev1.Service](t, principal, "Service argocd/"+host).Spec.Ports[0].Port)))
	requireLet(t, with, principal, "argocd-agent-principal")
	requireNames(t, plain, principal, "argocd-agent-principal")
}

func TestArgoCDOfASpoke(t *testing.T) {
	agent := kustomized(t, filepath.Join(root, "agent"))
	for manifest, left := range map[string][]string{
		"install.yaml": {"applicationset-controller", "dex-server", "notifications-controller", "server"}, "core-install.yaml": {"applicationset-controller"},
	} {
		plain, with := argoCD(t, manifest, "argocd/spoke")
		gone, came, other := changed(plain, with)
		var want []string
		for _, part := range left {
			want = append(want, "Deployment argocd/argocd-"+part)
		}
		require.Equal(t, want, gone, manifest)
		require.Equal(t, []string{"NetworkPolicy argocd/argocd-agent-to-redis"}, came)
		require.Empty(t, other)
		requireLet(t, with, agent, "argocd-agent-agent")
	}
}

// requireLet expects that our policies let our program, and nobody else, to a port of a part of
// Argo CD that has it and policies of its own.
func requireLet(t *testing.T, theirs, ours set, program string) {
	t.Helper()
	for name, u := range theirs {
		if u.GetKind() != "NetworkPolicy" || !strings.HasPrefix(u.GetName(), "argocd-agent-") {
			continue
		}
		p := as[networkingv1.NetworkPolicy](t, theirs, name).Spec
		require.Len(t, p.Ingress, 1)
		require.Len(t, p.Ingress[0].From, 1)
		require.Equal(t, as[appsv1.Deployment](t, ours, "Deployment argocd/"+program).Spec.Selector, p.Ingress[0].From[0].PodSelector)
		part := p.PodSelector.MatchLabels["app.kubernetes.io/name"]
		require.Equal(t, p.PodSelector, as[networkingv1.NetworkPolicy](t, theirs, "NetworkPolicy argocd/"+part+"-network-policy").Spec.PodSelector)
		d := as[appsv1.Deployment](t, theirs, "Deployment argocd/"+part)
		require.Equal(t, part, d.Spec.Template.Labels["app.kubernetes.io/name"])
		require.Len(t, p.Ingress[0].Ports, 1)
		var ports []int32
		for _, c := range d.Spec.Template.Spec.Containers[0].Ports {
			ports = append(ports, c.ContainerPort)
		}
		require.Contains(t, ports, p.Ingress[0].Ports[0].Port.IntVal)
	}
}

// requireNames expects that our policy names parts of Argo CD as they are named.
func requireNames(t *testing.T, theirs, ours set, program string) {
	t.Helper()
	named := map[string]bool{}
	for name, u := range theirs {
		if u.GetKind() == "Deployment" || u.GetKind() == "StatefulSet" {
			label, _, err := unstructured.NestedString(u.Object, "spec", "template", "metadata", "labels", "app.kubernetes.io/name")
			require.NoError(t, err, name)
			named[label] = true
		}
	}
	for _, rule := range as[networkingv1.NetworkPolicy](t, ours, "NetworkPolicy argocd/"+program).Spec.Ingress {
		for _, from := range rule.From {
			if from.PodSelector == nil {
				continue
			}
			for _, value := range from.PodSelector.MatchExpressions[0].Values {
				require.True(t, named[value], value)
			}
		}
	}
}
