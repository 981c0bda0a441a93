package kubestore

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// reached returns an error if a list shows that the cluster is younger than a version.
func reached(list runtime.Object, version string) error {
	l, err := meta.ListAccessor(list)
	if err != nil {
		return fmt.Errorf("kubestore: %w", err)
	}
	is, err := number(l.GetResourceVersion())
	if err != nil {
		return err
	}
	was, err := number(version)
	if err != nil {
		return err
	}
	if is < was {
		return apierrors.NewResourceExpired(fmt.Sprintf("the cluster was at %d, and is at %d", was, is))
	}
	return nil
}
