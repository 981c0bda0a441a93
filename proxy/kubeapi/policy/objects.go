package policy

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Objects is what a Policy looks up on the spoke's cluster, with the agent's own rights. Its
// errors are those of package apierrors, where the cluster has answered.
type Objects interface {
	// Kind returns the kind that a resource is of; ErrNoKind if there is none.
	Kind(ctx context.Context, r schema.GroupVersionResource) (Kind, error)
	// Resource returns the resource of a kind; ErrNoKind if there is none.
	Resource(ctx context.Context, k schema.GroupVersionKind) (Kind, error)
	// Get returns the metadata of an object. The namespace of an object that is in none is
	// not looked at.
	Get(ctx context.Context, k Kind, namespace, name string) (*metav1.PartialObjectMetadata, error)
	// Settings returns how Argo CD tracks objects now.
	Settings(ctx context.Context) (Settings, error)
	// Involved returns the object of one of the events that a field selector selects, and the
	// resourceVersion of that list; nil if it selects none. An empty namespace is all.
	Involved(ctx context.Context, namespace, selector string) (*corev1.ObjectReference, string, error)
}

// A Kind is a kind of objects, and the resource by which it is served.
type Kind struct {
	Kind       schema.GroupVersionKind
	Resource   schema.GroupVersionResource
	Namespaced bool
}

// ErrNoKind says that the API server serves no such kind or resource.
var ErrNoKind = errors.New("policy: the API server has no such resource")

// applications is the kind of Argo CD's Applications, which needs no looking up.
var applications = Kind{
	Kind:       schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"},
	Resource:   schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"},
	Namespaced: true,
}
