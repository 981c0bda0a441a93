package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// fieldManager is who owns the fields that [Cluster.Apply] sets.
const fieldManager = "stack"

// Applications returns the resource of Argo CD's Applications.
func Applications() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}
}

// AppProjects returns the resource of Argo CD's AppProjects.
func AppProjects() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "appprojects"}
}

// Apply creates or changes the objects in a YAML stream by server-side apply,
// one after the other. A namespaced object without a namespace goes to
// "default".
func (c *Cluster) Apply(ctx context.Context, stream []byte) error {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(stream), 4096)
	for {
		var object unstructured.Unstructured
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("stack: apply to %s: %w", c.cfg.Name, err)
		}
		if len(object.Object) == 0 { // nothing between two separators
			continue
		}
		if err := c.apply(ctx, &object); err != nil {
			return fmt.Errorf("stack: apply %s %s to %s: %w", object.GetKind(), object.GetName(), c.cfg.Name, err)
		}
	}
}

func (c *Cluster) apply(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := c.resource(object)
	if err != nil {
		return err
	}
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	_, err = resource.Apply(ctx, object.GetName(), object, options)
	return err
}

// resource returns the client for an object's kind and namespace.
func (c *Cluster) resource(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) { // perhaps defined since the last look
		c.mapper.Reset()
		mapping, err = c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return c.client.Resource(mapping.Resource), nil
	}
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return c.client.Resource(mapping.Resource).Namespace(namespace), nil
}

// Namespace creates a namespace, unless it is there.
func (c *Cluster) Namespace(ctx context.Context, name string) error {
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}
	_, err := c.client.Resource(namespaces).Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("stack: create namespace %s on %s: %w", name, c.cfg.Name, err)
	}
	return nil
}
