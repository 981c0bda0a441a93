package oracle

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	cascade   = "resources-finalizer.argocd.argoproj.io"
	sourceUID = "argocd.argoproj.io/source-uid"
	hubUID    = "argocd.argoproj.io/principal-uid"
	agentName = "argocd-agent.argoproj-labs.io/agent-name"
)

// homebound are annotations that stay on the object which they are on.
func homebound() map[string]string {
	return map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": "{}",
		"notified.notifications.argoproj.io":               "{}",
		"argocd.argoproj.io/refresh":                       "hard",
	}
}

// dressed returns an Application that has all that must not travel.
func (g *generator) dressed(t *testing.T, namespace string) *v1alpha1.Application {
	a := g.application(t, namespace)
	a.Annotations = joined(a.Annotations, homebound())
	a.Finalizers = some(g, "example.com/theirs", cascade, "post-delete-finalizer.argocd.argoproj.io/x", cascade+"/background")
	a.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "u"}}
	a.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: "Update"}}
	a.GenerateName = "generated-"
	a.SelfLink = "/self"
	return a
}

// ours are conditions that a principal adds to what an agent says. It adds AgentError, too,
// but as the agent's.
func ours(g *generator) []v1alpha1.ApplicationCondition {
	at := metav1.NewTime(now())
	return some(g,
		v1alpha1.ApplicationCondition{Type: "AgentPending", Message: "it waits", LastTransitionTime: &at},
		v1alpha1.ApplicationCondition{Type: "DeletionHeld", Message: "it is held", LastTransitionTime: &at},
	)
}

func TestApplications(t *testing.T) {
	c := newCarrier(t)
	t.Run("is created on a managed spoke", func(t *testing.T) {
		everySeed(t, func(t *testing.T, g *generator) {
			original := g.dressed(t, "edge-1")
			made := c.carry(t, "managed", "agent", encoded(t, original), nil)
			copied := decoded[v1alpha1.Application](t, made)
			require.JSONEq(t, string(encoded(t, original.Spec)), string(encoded(t, copied.Spec)))
			require.JSONEq(t, string(encoded(t, original.Operation)), string(encoded(t, copied.Operation)))
			require.JSONEq(t, string(encoded(t, v1alpha1.ApplicationStatus{})), string(encoded(t, copied.Status)))
			mark := map[string]string{sourceUID: string(original.UID), hubUID: "the-other-side"}
			requireMeta(t, original, copied, nil, mark)
		})
	})
	t.Run("is changed on a managed spoke", func(t *testing.T) {
		everySeed(t, func(t *testing.T, g *generator) {
			original, before := g.dressed(t, "edge-1"), g.dressed(t, "argocd")
			before.Operation = nil
			after := decoded[v1alpha1.Application](t, c.carry(t, "managed", "agent", encoded(t, original), encoded(t, before)))
			require.JSONEq(t, string(encoded(t, original.Spec)), string(encoded(t, after.Spec)))
			require.JSONEq(t, string(encoded(t, original.Operation)), string(encoded(t, after.Operation)))
			require.JSONEq(t, string(encoded(t, before.Status)), string(encoded(t, after.Status)), "it is the spoke's own")
			require.Equal(t, before.OwnerReferences, after.OwnerReferences)
			require.Equal(t, before.ManagedFields, after.ManagedFields)
			for key, value := range before.Labels { // those of others stay, but for what the owner says
				if _, said := original.Labels[key]; !said {
					require.Equal(t, value, after.Labels[key])
				}
			}
			require.Subset(t, after.Labels, original.Labels)
			require.Subset(t, after.Finalizers, theirs(before.Finalizers))
			require.ElementsMatch(t, cascades(original.Finalizers), cascades(after.Finalizers))
		})
	})
	t.Run("tells its status to the hub", func(t *testing.T) {
		everySeed(t, func(t *testing.T, g *generator) {
			original, before := g.dressed(t, "argocd"), g.dressed(t, "edge-1")
			told := ours(g)
			before.Status.Conditions = slices.Concat(before.Status.Conditions, told)
			after := decoded[v1alpha1.Application](t, c.carry(t, "managed", "principal", encoded(t, original), encoded(t, before)))
			want := original.Status
			want.Conditions = slices.Concat(want.Conditions, told)
			require.JSONEq(t, string(encoded(t, want)), string(encoded(t, after.Status)))
			require.JSONEq(t, string(encoded(t, before.Spec)), string(encoded(t, after.Spec)), "it is the hub's own")
			require.JSONEq(t, string(encoded(t, before.Operation)), string(encoded(t, after.Operation)))
			require.Equal(t, before.Finalizers, after.Finalizers)
			require.Subset(t, after.Annotations, homebound())
		})
	})
	t.Run("of an autonomous spoke is shown on the hub", func(t *testing.T) {
		everySeed(t, func(t *testing.T, g *generator) {
			original := g.dressed(t, "argocd")
			plain := original.Status.DeepCopy()
			original.Status.Conditions = slices.Concat(original.Status.Conditions, ours(g)) // of another hub
			shown := decoded[v1alpha1.Application](t, c.carry(t, "autonomous", "principal", encoded(t, original), nil))
			require.JSONEq(t, string(encoded(t, original.Spec)), string(encoded(t, shown.Spec)))
			require.JSONEq(t, string(encoded(t, plain)), string(encoded(t, shown.Status)))
			require.Nil(t, shown.Operation, "it is the spoke's to run")
			requireMeta(t, original, shown, map[string]string{agentName: "the-other-side"}, map[string]string{sourceUID: string(original.UID)})
		})
	})
	t.Run("keeps what Argo CD does not know", func(t *testing.T) {
		everySeed(t, func(t *testing.T, g *generator) {
			original := tree(t, encoded(t, g.application(t, "edge-1"))).(map[string]any)
			original["spec"].(map[string]any)["future"] = map[string]any{"list": []any{json.Number("1.5"), "<&>", map[string]any{g.word(): true}}}
			made := tree(t, c.carry(t, "managed", "agent", encoded(t, original), nil)).(map[string]any)
			require.Equal(t, original["spec"], made["spec"])
		})
	})
}

// requireMeta holds that a new copy has of an original's metadata what travels, and the marks
// of a copy.
func requireMeta(t *testing.T, original, made *v1alpha1.Application, labels, annotations map[string]string) {
	t.Helper()
	want := metav1.ObjectMeta{
		Name: original.Name, Namespace: original.Namespace,
		Labels:      joined(original.Labels, labels),
		Annotations: joined(original.Annotations, annotations),
		Finalizers:  cascades(original.Finalizers),
	}
	for key := range homebound() {
		delete(want.Annotations, key)
	}
	require.JSONEq(t, string(encoded(t, want)), string(encoded(t, made.ObjectMeta)))
}

// joined returns the keys of both maps.
func joined(a, b map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// cascades returns those finalizers that Argo CD deletes workloads by, sorted.
func cascades(finalizers []string) []string {
	return slices.Sorted(slices.Values(slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return !strings.HasPrefix(f, cascade) })))
}

func theirs(finalizers []string) []string {
	return slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return strings.HasPrefix(f, cascade) })
}
