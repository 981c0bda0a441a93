package kubestore

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// keptKey is the key in the data of a Secret under which Keep has what it keeps.
const keptKey = "key.pem"

// Keep returns what a Secret of the namespace keeps for the program; if there is none, one is
// made that nobody can change, with what fresh returns. However many do so at the same time,
// all are told the same. To have another one made, delete it.
func (h *Home) Keep(ctx context.Context, name string, fresh func() ([]byte, error)) ([]byte, error) {
	client := h.client.Resource(secrets).Namespace(h.cfg.Namespace)
	for {
		u, err := client.Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			var s corev1.Secret
			if err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &s); err != nil || len(s.Data[keptKey]) == 0 {
				return nil, h.fail("read", name, errors.New("it lacks "+keptKey+": delete it, and it is made anew"))
			}
			return s.Data[keptKey], nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, h.fail("read", name, err)
		}
		value, err := fresh()
		if err != nil {
			return nil, fmt.Errorf("kubestore: make what secret %s/%s keeps: %w", h.cfg.Namespace, name, err)
		}
		fixed := true
		_, err = client.Create(ctx, object(&corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: h.cfg.Namespace},
			Immutable:  &fixed,
			Type:       corev1.SecretTypeOpaque,
			Data:       map[string][]byte{keptKey: value},
		}), metav1.CreateOptions{FieldManager: FieldManager})
		switch {
		case err == nil:
			return value, nil
		case !apierrors.IsAlreadyExists(err): // else whoever was faster has made it: look again
			return nil, h.fail("create", name, err)
		}
	}
}
