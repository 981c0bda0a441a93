package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// everything returns an installation with all that there is of a program, and more components.
func everything(t *testing.T, program string, more ...string) set {
	for _, i := range installations {
		if i.base == program && slices.Contains(i.components, program+"/metrics") && !slices.Contains(i.components, "principal/nats") {
			return overlay(t, i.base, append(more, i.components...), "")
		}
	}
	t.Fatal(program)
	return nil
}

// variables returns the environment variables that a program reads, by its page in the reference, which
// is written from its code.
func variables(t *testing.T, program string) (out []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference", "argocd-agent.md"))
	require.NoError(t, err)
	_, text, found := strings.Cut(string(page), "## argocd-agent "+program+"\n")
	require.True(t, found, program)
	text, _, _ = strings.Cut(text, "\n## ")
	for _, v := range regexp.MustCompile("\\| `(ARGOCD_[A-Z0-9_]+)` \\|").FindAllStringSubmatch(text, -1) {
		out = append(out, v[1])
	}
	require.Greater(t, len(out), 20)
	return out
}

func TestWhatIsNamedIsThere(t *testing.T) {
	for _, c := range []struct {
		program string
		more    []string
	}{{"principal", nil}, {"principal", []string{"principal/nats"}}, {"agent", nil}} {
		t.Run(strings.Join(append([]string{c.program}, c.more...), " with "), func(t *testing.T) {
			s, name := everything(t, c.program, c.more...), "argocd-agent-"+c.program
			known := variables(t, c.program)
			params := as[corev1.ConfigMap](t, s, "ConfigMap argocd/argocd-agent-params").Data
			d := as[appsv1.Deployment](t, s, "Deployment argocd/"+name)
			container := d.Spec.Template.Spec.Containers[0]
			read := map[string]bool{}
			for _, e := range container.Env {
				require.Contains(t, known, e.Name, "the program reads it")
				if e.ValueFrom == nil {
					continue
				}
				if from := e.ValueFrom.ConfigMapKeyRef; from != nil {
					require.Equal(t, "argocd-agent-params", from.Name)
					read[from.Key] = true
				}
			}
			for key := range params {
				require.True(t, read[key], "%s reaches the program", key)
			}
			require.Equal(t, d.Spec.Template.Labels["app.kubernetes.io/name"], d.Spec.Selector.MatchLabels["app.kubernetes.io/name"])
			requireAccount(t, s, d)
			requirePorts(t, s, d.Spec.Template)
		})
	}
}

func TestPortsOfNATSServers(t *testing.T) {
	s := kustomized(t, filepath.Join(root, "nats"))
	requirePorts(t, s, as[appsv1.StatefulSet](t, s, "StatefulSet argocd/argocd-agent-nats").Spec.Template)
}

// requireAccount expects that all rights are those of the account that a program runs as.
func requireAccount(t *testing.T, s set, d appsv1.Deployment) {
	account := d.Spec.Template.Spec.ServiceAccountName
	require.Contains(t, s, "ServiceAccount argocd/"+account)
	for name, u := range s {
		if !strings.HasSuffix(u.GetKind(), "RoleBinding") {
			continue
		}
		b := as[rbacv1.ClusterRoleBinding](t, s, name)
		require.Equal(t, []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: argocd}}, b.Subjects, name)
		require.Contains(t, s, b.RoleRef.Kind+" "+u.GetNamespace()+"/"+b.RoleRef.Name, "what %s grants", name)
	}
}

// requirePorts expects that Services lead to ports that are there, and that policies let in to
// all of them but to that of probes, which come from the node.
func requirePorts(t *testing.T, s set, pod corev1.PodTemplateSpec) {
	labels := map[string]string{"app.kubernetes.io/name": pod.Labels["app.kubernetes.io/name"]}
	var listening, allowed []string
	for _, p := range pod.Spec.Containers[0].Ports {
		if p.Name != "healthz" {
			listening = append(listening, p.Name)
		}
	}
	for name, u := range s {
		switch u.GetKind() {
		case "Service":
			service := as[corev1.Service](t, s, name)
			require.Equal(t, labels, service.Spec.Selector, name)
			for _, p := range service.Spec.Ports {
				require.Contains(t, listening, p.TargetPort.StrVal, name)
			}
		case "NetworkPolicy":
			policy := as[networkingv1.NetworkPolicy](t, s, name)
			require.Equal(t, labels, policy.Spec.PodSelector.MatchLabels, name)
			for _, rule := range policy.Spec.Ingress {
				for _, p := range rule.Ports {
					allowed = append(allowed, p.Port.StrVal)
				}
			}
		}
	}
	require.ElementsMatch(t, listening, allowed)
}
