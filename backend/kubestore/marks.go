package kubestore

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// The marks that are left on objects. They never travel.
const (
	sourceUIDAnnotation    = "argocd.argoproj.io/source-uid"
	principalUIDAnnotation = "argocd.argoproj.io/principal-uid"
	operationIDAnnotation  = "argocd-agent.argoproj-labs.io/operation-id" // of a request to run something, and of one to refresh
	refreshAnnotation      = "argocd.argoproj.io/refresh"                 // Argo CD's own

	// AgentNameLabel names the agent that a namespace, a cluster secret, or a copy on the
	// hub belongs to.
	AgentNameLabel = "argocd-agent.argoproj-labs.io/agent-name"
)

// FieldManager is the name under which the API server notes what the two programs write.
const FieldManager = "argocd-agent"

// homebound lists the label and annotation keys that stay on the object they are on.
var homebound = []string{
	"kubectl.kubernetes.io/last-applied-configuration",
	"notified.notifications.argoproj.io",
	refreshAnnotation,
	"argocd.argoproj.io/hydrate",
	sourceUIDAnnotation,
	principalUIDAnnotation,
	operationIDAnnotation,
	AgentNameLabel,
}

// travelling returns what of an object's metadata is its Meta part.
func travelling(m resource.Metadata) resource.Metadata {
	m.Labels, m.Annotations = maps.Clone(m.Labels), maps.Clone(m.Annotations)
	for _, key := range homebound {
		delete(m.Labels, key)
		delete(m.Annotations, key)
	}
	m.Finalizers = slices.DeleteFunc(slices.Clone(m.Finalizers), func(f string) bool { return !isCascade(f) })
	return m
}

// isCascade reports whether a finalizer is that of Argo CD's cascading deletion.
func isCascade(finalizer string) bool {
	const cascade = "resources-finalizer.argocd.argoproj.io"
	return finalizer == cascade || strings.HasPrefix(finalizer, cascade+"/")
}

// readOrigin reads the mark of a copy: on a spoke it names the hub's identity, on a hub
// the agent.
func readOrigin(side resource.Side, labels, annotations map[string]string) resource.Origin {
	o := resource.Origin{UID: annotations[sourceUIDAnnotation], By: labels[AgentNameLabel]}
	if side == resource.Agent {
		o.By = annotations[principalUIDAnnotation]
	}
	return o
}

// markOrigin is the inverse of readOrigin.
func markOrigin(o resource.Origin, side resource.Side, labels, annotations map[string]any) {
	if o.UID != "" {
		annotations[sourceUIDAnnotation] = o.UID
	}
	switch {
	case o.By == "":
	case side == resource.Agent:
		annotations[principalUIDAnnotation] = o.By
	default:
		labels[AgentNameLabel] = o.By
	}
}

// written returns the label and annotation keys that were written by us, as the API
// server has noted in the object's managedFields.
func written(u *unstructured.Unstructured) resource.Metadata {
	out := resource.Metadata{Labels: map[string]string{}, Annotations: map[string]string{}}
	managers, _, _ := unstructured.NestedFieldNoCopy(u.Object, "metadata", "managedFields")
	list, _ := managers.([]any)
	for _, m := range list {
		entry, _ := m.(map[string]any)
		if entry["manager"] != FieldManager {
			continue
		}
		for name, keys := range map[string]map[string]string{"f:labels": out.Labels, "f:annotations": out.Annotations} {
			fields, _, _ := unstructured.NestedFieldNoCopy(entry, "fieldsV1", "f:metadata", name)
			set, _ := fields.(map[string]any)
			for f := range set {
				if key, ok := strings.CutPrefix(f, "f:"); ok {
					keys[key] = ""
				}
			}
		}
	}
	return travelling(out)
}
