package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/argocd-fabric/argocd-agent/backend/kubeapis"
)

// ClusterConfig says where objects are looked up.
type ClusterConfig struct {
	REST      *rest.Config // as the agent; its QPS and Burst bound look-ups, 100 and 200 where they are zero
	Namespace string       // of Argo CD, where argocd-cm is
}

// A Cluster looks objects up in an API server. Of objects it reads the metadata only.
type Cluster struct {
	namespace string
	meta      metadata.Interface
	objects   dynamic.Interface
	apis      *kubeapis.Client
	versions  cache[schema.GroupVersion, []metav1.APIResource]
}

// NewCluster returns a Cluster. It does not reach out.
func NewCluster(cfg ClusterConfig) (*Cluster, error) {
	if cfg.REST == nil || cfg.Namespace == "" {
		return nil, errors.New("policy: a cluster needs a REST config and Argo CD's namespace")
	}
	known := rest.CopyConfig(cfg.REST)
	if known.QPS == 0 {
		known.QPS, known.Burst = 100, 200
	}
	c := &Cluster{namespace: cfg.Namespace}
	var err error
	if c.meta, err = metadata.NewForConfig(known); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if c.objects, err = dynamic.NewForConfig(known); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if c.apis, err = kubeapis.New(known, nil); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return c, nil
}

// Kind implements Objects.
func (c *Cluster) Kind(ctx context.Context, r schema.GroupVersionResource) (Kind, error) {
	return c.find(ctx, r.GroupVersion(), func(a metav1.APIResource) bool { return a.Name == r.Resource })
}

// Resource implements Objects.
func (c *Cluster) Resource(ctx context.Context, k schema.GroupVersionKind) (Kind, error) {
	return c.find(ctx, k.GroupVersion(), func(a metav1.APIResource) bool {
		return a.Kind == k.Kind && !strings.Contains(a.Name, "/")
	})
}

func (c *Cluster) find(ctx context.Context, gv schema.GroupVersion, is func(metav1.APIResource) bool) (Kind, error) {
	served, err := c.versions.get(gv, func() ([]metav1.APIResource, error) {
		served, err := c.apis.Resources(ctx, gv)
		if apierrors.IsNotFound(err) {
			return nil, nil // which is an answer, and kept
		}
		return served, err
	})
	if err != nil {
		return Kind{}, fmt.Errorf("policy: look up resources of %s: %w", gv, err)
	}
	for _, a := range served {
		if is(a) {
			return Kind{gv.WithKind(a.Kind), gv.WithResource(a.Name), a.Namespaced}, nil
		}
	}
	return Kind{}, ErrNoKind
}

// Get implements Objects.
func (c *Cluster) Get(ctx context.Context, k Kind, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	var objects metadata.ResourceInterface = c.meta.Resource(k.Resource)
	if k.Namespaced {
		objects = c.meta.Resource(k.Resource).Namespace(namespace)
	}
	o, err := objects.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("policy: look up %s %s: %w", k.Kind.Kind, name, err)
	}
	return o, nil
}

// Settings implements Objects. Where there is no argocd-cm, all is as by default.
func (c *Cluster) Settings(ctx context.Context) (Settings, error) {
	const name = "argocd-cm"
	var o corev1.ConfigMap
	u, err := c.objects.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &o)
	}
	if apierrors.IsNotFound(err) {
		return Settings{}, nil
	}
	if err != nil {
		return Settings{}, fmt.Errorf("policy: look up ConfigMap %s/%s: %w", c.namespace, name, err)
	}
	return SettingsOf(o.Data), nil
}

// Involved implements Objects.
func (c *Cluster) Involved(ctx context.Context, namespace, selector string) (*corev1.ObjectReference, string, error) {
	var list corev1.EventList
	u, err := c.objects.Resource(corev1.SchemeGroupVersion.WithResource("events")).Namespace(namespace).
		List(ctx, metav1.ListOptions{FieldSelector: selector, Limit: 1})
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.UnstructuredContent(), &list)
	}
	if err != nil {
		return nil, "", fmt.Errorf("policy: look up events: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, list.ResourceVersion, nil
	}
	return &list.Items[0].InvolvedObject, list.ResourceVersion, nil
}
