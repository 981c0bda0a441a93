package kubestore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A selection says which objects of a kind are ours to keep: those of a name, those with
// one of some values of a label, or all of them where it says neither. The API server
// applies it, so that nothing else of the kind comes into the program's hands.
type selection struct {
	name   string
	label  string
	values []string
}

// narrow makes a request one for the objects of the selection.
func (s selection) narrow(o metav1.ListOptions) metav1.ListOptions {
	if s.name != "" {
		o.FieldSelector = "metadata.name=" + s.name
	}
	if s.label != "" {
		o.LabelSelector = s.label + " in (" + strings.Join(s.values, ",") + ")"
	}
	return o
}

// admits refuses an object that would not be in the selection: once written it would be out
// of sight, and might be anybody's.
func (s selection) admits(want resource.Object) error {
	if s.name != "" && want.Key.Name != s.name {
		return fmt.Errorf("%w: of this kind only %s is synchronised", backend.ErrRefused, s.name)
	}
	value := resource.ParseMetadata(want.Parts[resource.Meta]).Labels[s.label]
	if s.label != "" && !slices.Contains(s.values, value) {
		return fmt.Errorf("%w: its label %s is %q, which is none of %s", backend.ErrRefused, s.label, value, strings.Join(s.values, ", "))
	}
	return nil
}

// uncover writes what could not be created because there is an object of its name, where
// that is out of sight: a copy whose label somebody has taken away is one all the same.
func (s *Store) uncover(ctx context.Context, want resource.Object, exists error) (resource.Object, error) {
	l := layouts[want.Key.Kind]
	request, cancel := s.limit(ctx)
	defer cancel()
	list, err := s.resource(want.Key.Kind, want.Key.Namespace).List(request, metav1.ListOptions{FieldSelector: "metadata.name=" + want.Key.Name})
	if err != nil {
		return resource.Object{}, fmt.Errorf("%w, and it cannot be seen why: %w", exists, told(request, err))
	}
	if len(list.Items) == 0 {
		return resource.Object{}, exists
	}
	there := l.read(want.Key.Kind, s.cfg.Side, &list.Items[0])
	switch {
	case l.only.admits(there.Object) == nil:
		return resource.Object{}, exists // the watch will show it
	case there.Origin.UID == "" || there.Origin != want.Origin:
		return resource.Object{}, fmt.Errorf("%w: an object of this name is there that is not synchronised: %w", backend.ErrRefused, exists)
	}
	return s.request(ctx, there, want)
}
