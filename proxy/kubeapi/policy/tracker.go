package policy

import (
	"context"
	"errors"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const (
	levels    = 5  // how far an owner that is tracked may be above what it owns
	ancestors = 32 // how many owners are looked at for one object
)

// A tracker knows which objects are managed.
type tracker struct {
	objects Objects
	home    string            // Argo CD's namespace
	others  func(string) bool // whether Applications of another namespace count
	config  cache[struct{}, Settings]
	apps    cache[types.NamespacedName, struct{}]
	owners  cache[ownerKey, owner]
}

type ownerKey struct {
	apiVersion, kind, namespace, name string
	uid                               types.UID
}

// An owner is an object that was looked up for what it owns.
type owner struct {
	kind Kind
	meta *metav1.PartialObjectMetadata
}

// settings returns how Argo CD tracks.
func (t *tracker) settings(ctx context.Context) (Settings, error) {
	return t.config.get(struct{}{}, func() (Settings, error) { return t.objects.Settings(ctx) })
}

// managed reports whether an object is tracked by an Application, or an owner of it within the
// levels is. An error says that it could not be found out.
func (t *tracker) managed(ctx context.Context, k Kind, o *metav1.PartialObjectMetadata) (bool, error) {
	s, err := t.settings(ctx)
	if err != nil {
		return false, err
	}
	level, looked := []owner{{k, o}}, 0
	var unknown error
	for range levels + 1 {
		var above []owner
		for _, o := range level {
			switch tracked, err := t.tracked(ctx, s, o); {
			case err != nil:
				unknown = errors.Join(unknown, err)
			case tracked:
				return true, nil
			}
			for _, ref := range o.meta.OwnerReferences {
				if looked++; looked > ancestors {
					return false, unknown
				}
				switch up, err := t.owner(ctx, o, ref); {
				case gone(err):
				case err != nil:
					unknown = errors.Join(unknown, err)
				default:
					above = append(above, up)
				}
			}
		}
		level = above
	}
	return false, unknown
}

// tracked reports whether an object itself is tracked by an Application that there is.
func (t *tracker) tracked(ctx context.Context, s Settings, o owner) (bool, error) {
	instance := s.Instance(o.kind, o.meta)
	if instance == "" {
		return false, nil
	}
	namespace, name := applicationOf(instance, t.home)
	if namespace == "" || name == "" || namespace != t.home && !t.others(namespace) {
		return false, nil
	}
	_, err := t.apps.get(types.NamespacedName{Namespace: namespace, Name: name}, func() (struct{}, error) {
		_, err := t.objects.Get(ctx, applications, namespace, name)
		return struct{}{}, err
	})
	if gone(err) {
		return false, nil
	}
	return err == nil, err
}

// owner looks up an owner, which is the one that is meant only if it has the UID.
func (t *tracker) owner(ctx context.Context, o owner, ref metav1.OwnerReference) (owner, error) {
	key := ownerKey{ref.APIVersion, ref.Kind, o.meta.Namespace, ref.Name, ref.UID}
	return t.owners.get(key, func() (owner, error) {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err != nil {
			return owner{}, ErrNoKind
		}
		kind, err := t.objects.Resource(ctx, gv.WithKind(ref.Kind))
		if err != nil {
			return owner{}, err
		}
		if kind.Namespaced && o.meta.Namespace == "" || !plain(ref.Name) {
			return owner{}, ErrNoKind // which owns nothing, by the rules of Kubernetes
		}
		meta, err := t.objects.Get(ctx, kind, o.meta.Namespace, ref.Name)
		if err == nil && (meta.UID != ref.UID || ref.UID == "") {
			err = apierrors.NewNotFound(kind.Resource.GroupResource(), ref.Name)
		}
		return owner{kind, meta}, err
	})
}

// plain reports whether a name can be one, so that it makes no other path of a URL.
func plain(name string) bool {
	parts, err := segments(&url.URL{Path: "/" + name})
	return err == nil && len(parts) == 1 && parts[0] == name
}

// gone reports whether an error says that there is no such thing.
func gone(err error) bool { return errors.Is(err, ErrNoKind) || apierrors.IsNotFound(err) }
