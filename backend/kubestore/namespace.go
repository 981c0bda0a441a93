package kubestore

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// noNamespace reports whether err says that a namespace is not there.
func noNamespace(err error, namespace string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	d := status.Status().Details
	return d.Kind == namespaces.Resource && d.Name == namespace
}

// settle writes what could not be created because its namespace is not there, where the store
// may make that. A namespace that is being deleted is there: it is waited for.
func (s *Store) settle(ctx context.Context, want resource.Object, missing error) (resource.Object, error) {
	name := want.Key.Namespace
	if !s.cfg.MakeNamespaces {
		return resource.Object{}, fmt.Errorf("there is no namespace %s here: make it, or have the agent make it (--create-namespace): %w", name, missing)
	}
	request, cancel := s.limit(ctx)
	defer cancel()
	_, err := s.client.Resource(namespaces).Create(request, object(&corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}), metav1.CreateOptions{FieldManager: FieldManager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return resource.Object{}, fmt.Errorf("make namespace %s: %w", name, told(request, err))
	}
	return s.request(ctx, record{}, want)
}
