package kubestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// An attempt says what was asked of the API server.
type attempt uint8

const (
	creating attempt = iota // an object that is not there
	changing                // one that is
)

// explain returns what an answer of the API server means to the caller of a Store.
func (a attempt) explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), a == changing && (apierrors.IsNotFound(err) || otherUID(err)):
		return fmt.Errorf("%w: %w", backend.ErrConflict, err)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause): // forbidden only as long as that takes
		return err
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err), tooLarge(err):
		return fmt.Errorf("%w: %w", backend.ErrRefused, err)
	}
	return err
}

// otherUID reports whether a patch was refused because its uid is not the object's: one
// made anew has the same version if the cluster has gone back in time.
func otherUID(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// tooLarge reports whether an object is too large for the API server or for its etcd,
// which the API server passes on as an internal error.
func tooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || strings.Contains(err.Error(), "etcdserver: request is too large") ||
		strings.Contains(err.Error(), "trying to send message larger than max")
}

// check refuses keys that no object of the store can have.
func (s *Store) check(k resource.Key) error {
	if _, ok := s.mirror.kinds[k.Kind]; !ok {
		return fmt.Errorf("%w: there is no such kind", backend.ErrRefused)
	}
	for _, name := range []string{k.Namespace, k.Name} {
		if name == "" || len(rest.IsValidPathSegmentName(name)) > 0 {
			return fmt.Errorf("%w: %q is no name", backend.ErrRefused, name)
		}
	}
	if s.cfg.Namespace != "" && s.cfg.Namespace != k.Namespace {
		return fmt.Errorf("%w: it is not in namespace %s", backend.ErrRefused, s.cfg.Namespace)
	}
	return nil
}
