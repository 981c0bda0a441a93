package wire

import (
	"fmt"
	"strings"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Name returns the text of a key on a link: kind/namespace/name, where the namespace may be
// empty, or the reserved name alone, as in "$manifest".
func Name(k resource.Key) string {
	if engine.Reserved(k) && k.Namespace == "" && k.Name == "" {
		return string(k.Kind)
	}
	return string(k.Kind) + "/" + k.Namespace + "/" + k.Name
}

// Key is the inverse of Name. It fails with ErrMalformed for a text that is the name of no
// key. The kind may be one that this version does not know.
func Key(name string) (resource.Key, error) {
	if err := plain(name); err != nil {
		return resource.Key{}, fmt.Errorf("key: %w", err)
	}
	p := strings.Split(name, "/")
	switch {
	case len(p) == 1 && len(name) > 1 && strings.HasPrefix(name, "$"):
		return resource.Key{Kind: resource.Kind(name)}, nil
	case len(p) != 3, p[0] == "", p[2] == "", strings.HasPrefix(name, "$"):
		return resource.Key{}, fmt.Errorf("%w: key %q", ErrMalformed, name)
	}
	return resource.Key{Kind: resource.Kind(p[0]), Namespace: p[1], Name: p[2]}, nil
}
