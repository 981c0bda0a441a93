// Package kube reaches clusters for command lines, and keeps certificates in their
// Secrets.
package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Connect says how to reach the cluster of a context in a kubeconfig file. Where both are
// empty that is what kubectl takes or, if there is nothing, the cluster that the program
// runs in. It does not reach out.
func Connect(kubeconfig, context string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) || errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New("kube: there is no kubeconfig, and the program does not run in a cluster")
	}
	if err != nil {
		return nil, fmt.Errorf("kube: %w", err)
	}
	return cfg, nil
}

// Secrets are those of one namespace.
type Secrets struct {
	namespace string
	client    dynamic.ResourceInterface
}

// patience is how long the API server may take for a Secret, where nothing else says so.
const patience = 30 * time.Second

// NewSecrets returns the Secrets of a namespace.
func NewSecrets(cfg *rest.Config, namespace string) (*Secrets, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = cmp.Or(cfg.Timeout, patience)
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("kube: %w", err)
	}
	return &Secrets{namespace, client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace)}, nil
}

// ErrThere says that a Secret is there already.
var ErrThere = errors.New("it is there already")

// Missing reports whether an error says that there is no such Secret.
func Missing(err error) bool { return apierrors.IsNotFound(err) }

// Get returns what a Secret holds.
func (s *Secrets) Get(ctx context.Context, name string) (map[string][]byte, error) {
	var o corev1.Secret
	if err := read(ctx, s.client, name, &o); err != nil {
		return nil, s.fail("read", name, err)
	}
	return o.Data, nil
}

// Put makes a Secret. One that is there already is ErrThere, unless it may be replaced.
func (s *Secrets) Put(ctx context.Context, name string, data map[string][]byte, replace bool) error {
	o := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/part-of": "argocd-agent"}},
		Type:       corev1.SecretTypeOpaque,
		Data:       data,
	}
	if len(data["tls.crt"]) > 0 && len(data["tls.key"]) > 0 {
		o.Type = corev1.SecretTypeTLS
	}
	err := create(ctx, s.client, o)
	if apierrors.IsAlreadyExists(err) {
		if !replace {
			return s.fail("make", name, ErrThere)
		}
		return s.replace(ctx, name, data)
	}
	if err != nil {
		return s.fail("make", name, err)
	}
	return nil
}

// replace gives a Secret other data. Its type cannot change, and stays.
func (s *Secrets) replace(ctx context.Context, name string, data map[string][]byte) error {
	var o corev1.Secret
	err := read(ctx, s.client, name, &o)
	if err == nil {
		o.Data = data
		err = update(ctx, s.client, &o)
	}
	if err != nil {
		return s.fail("replace", name, err)
	}
	return nil
}

// Delete deletes a Secret.
func (s *Secrets) Delete(ctx context.Context, name string) error {
	if err := s.client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return s.fail("delete", name, err)
	}
	return nil
}

func (s *Secrets) fail(act, name string, err error) error {
	return fmt.Errorf("kube: %s Secret %s/%s: %w", act, s.namespace, name, err)
}
