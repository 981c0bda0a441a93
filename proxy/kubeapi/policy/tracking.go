package policy

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Settings say how the spoke's Argo CD tracks what it manages, as in argocd-cm.
type Settings struct {
	Method       string   // application.resourceTrackingMethod; empty is annotation or, where there is none, label
	Label        string   // application.instanceLabelKey; empty is app.kubernetes.io/instance
	Installation string   // installationID
	Sensitive    []string // resource.sensitive.mask.annotations: annotations of Secrets that are masked, too
}

// SettingsOf reads the data of argocd-cm.
func SettingsOf(data map[string]string) Settings {
	s := Settings{
		Method:       data["application.resourceTrackingMethod"],
		Label:        data["application.instanceLabelKey"],
		Installation: data["installationID"],
	}
	for key := range strings.SplitSeq(data["resource.sensitive.mask.annotations"], ",") {
		if key = strings.TrimSpace(key); key != "" {
			s.Sensitive = append(s.Sensitive, key)
		}
	}
	return s
}

// What Argo CD marks objects with.
const (
	trackingAnnotation     = "argocd.argoproj.io/tracking-id"
	installationAnnotation = "argocd.argoproj.io/installation-id"
	instanceLabel          = "app.kubernetes.io/instance"
)

// Instance returns the instance name of the Application that tracks an object of a kind, empty
// if none does. A tracking id counts only on the object that it names: controllers copy
// annotations to what they make.
func (s Settings) Instance(k Kind, o *metav1.PartialObjectMetadata) string {
	label := s.Label
	if label == "" {
		label = instanceLabel
	}
	switch s.Method {
	case "label":
		return o.Labels[label]
	case "":
		if o.Annotations[trackingAnnotation] == "" {
			return o.Labels[label]
		}
	}
	if o.Annotations[installationAnnotation] != s.Installation {
		return ""
	}
	return instanceOf(o.Annotations[trackingAnnotation], k, o)
}

// instanceOf reads a tracking id, instance:group/Kind:namespace/name. The namespace of an
// object that is in none is that of its Application's destination, and Ingresses have changed
// their group.
func instanceOf(id string, k Kind, o *metav1.PartialObjectMetadata) string {
	parts := strings.SplitN(id, ":", 3)
	if len(parts) != 3 {
		return ""
	}
	group, kind, ok1 := strings.Cut(parts[1], "/")
	namespace, name, ok2 := strings.Cut(parts[2], "/")
	switch {
	case !ok1, !ok2, kind != k.Kind.Kind, name != o.Name, name == "",
		group != k.Kind.Group && group != "extensions",
		k.Namespaced && namespace != o.Namespace:
		return ""
	}
	return parts[0]
}

// applicationOf returns where the Application of an instance name is: those that are not in
// Argo CD's own namespace have theirs before the name.
func applicationOf(instance, home string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(instance, "_"); ok {
		return namespace, name
	}
	return home, instance
}
