package kubestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// explain returns what an answer of the API server, to a request about the object that
// cur is of, means to the caller of a Store.
func (s *Store) explain(ctx context.Context, k resource.Key, cur record, err error) error {
	switch {
	case errors.Is(err, backend.ErrRefused), ctx.Err() != nil:
		return err
	case contested(cur, err):
		return s.contest(ctx, k, cur, err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), tooLarge(err):
		return fmt.Errorf("%w: %w", backend.ErrRefused, err)
	}
	// All else may go away: also what is forbidden, once rights or quotas are others, or the
	// namespace has gone, and what comes of too many requests.
	return err
}

// contested reports whether err says that the object is not as cur.
func contested(cur record, err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || cur.Version != "" && (apierrors.IsNotFound(err) || otherUID(err))
}

// contest returns what it means that err says so: it is ErrConflict if it is true, so that
// watches show or will show why. But a quota or a webhook may answer like that, too, and
// an object may have gone that no watch will show: then it may go away.
func (s *Store) contest(ctx context.Context, k resource.Key, cur record, err error) error {
	if now := s.mirror.get(k); now.Version != cur.Version || now.UID != cur.UID {
		return fmt.Errorf("%w: %w", backend.ErrConflict, err)
	}
	request, cancel := s.limit(ctx)
	defer cancel()
	list, look := s.resource(k.Kind, k.Namespace).List(request, metav1.ListOptions{FieldSelector: "metadata.name=" + k.Name})
	if look != nil {
		return fmt.Errorf("%w, and it cannot be seen why: %w", err, told(request, look))
	}
	var uid, version string
	if len(list.Items) > 0 {
		uid, version = string(list.Items[0].GetUID()), list.Items[0].GetResourceVersion()
	}
	if uid == cur.UID && version == cur.Version {
		return fmt.Errorf("%w, though it has not changed", err)
	}
	return fmt.Errorf("%w: %w", backend.ErrConflict, err)
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
	if only := s.scope(k.Kind); only != "" && only != k.Namespace {
		return fmt.Errorf("%w: it is not in namespace %s", backend.ErrRefused, only)
	}
	return nil
}
