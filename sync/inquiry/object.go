package inquiry

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// An object is a resource.Object as it travels.
type object struct {
	Kind      string            `json:"kind"`
	Namespace string            `json:"namespace,omitempty"`
	Name      string            `json:"name"`
	UID       string            `json:"uid"`
	Of        string            `json:"of,omitempty"` // the Origin's UID
	By        string            `json:"by,omitempty"` // and its By
	Deleting  bool              `json:"deleting,omitempty"`
	Excluded  bool              `json:"excluded,omitempty"`
	Ours      string            `json:"ours,omitempty"`
	Parts     map[string]string `json:"parts,omitempty"` // by name; their texts
}

func pack(o resource.Object) object {
	out := object{
		Kind: string(o.Key.Kind), Namespace: o.Key.Namespace, Name: o.Key.Name, UID: o.UID, Of: o.Origin.UID, By: o.Origin.By,
		Deleting: o.Deleting, Excluded: o.Excluded, Ours: o.Ours, Parts: map[string]string{},
	}
	for p, text := range o.Parts {
		if text != "" {
			out.Parts[resource.Part(p).String()] = text
		}
	}
	return out
}

// unpack is the inverse of pack. It trusts nobody: what it returns is as a store could have
// it. Parts that this version does not know are left out.
func (o object) unpack() (resource.Object, error) {
	out := resource.Object{
		Key: resource.Key{Kind: resource.Kind(o.Kind), Namespace: o.Namespace, Name: o.Name},
		UID: o.UID, Origin: resource.Origin{UID: o.Of, By: o.By}, Deleting: o.Deleting, Excluded: o.Excluded, Ours: o.Ours,
	}
	if !slices.Contains(resource.Kinds(), out.Key.Kind) {
		return out, fmt.Errorf("kind %.60q is none that is kept in step", o.Kind)
	}
	if o.Name == "" || o.UID == "" {
		return out, errors.New("an object without name or UID")
	}
	for _, text := range []string{o.Namespace, o.Name, o.UID, o.Of, o.By} {
		if len(text) > maxName || !utf8.ValidString(text) {
			return out, fmt.Errorf("object %.60q: a name that is none", o.Name)
		}
	}
	for name, text := range o.Parts {
		if p, known := resource.PartNamed(name); known {
			out.Parts[p] = text
		}
	}
	return out, nil
}

// maxName is the length of the longest name, in bytes: more than Kubernetes allows.
const maxName = 512

// Brief returns o with its long parts replaced by texts that stand for them: those of two
// objects are equal where the parts are. Brief of what Brief has returned is the same.
func Brief(o resource.Object) resource.Object {
	for _, p := range []resource.Part{resource.Spec, resource.Status, resource.OpState} {
		if text := o.Parts[p]; len(text) > long {
			o.Parts[p] = fmt.Sprintf("%d bytes with digest %s", len(text), resource.Sum(text))
		}
	}
	return o
}

// long is the length from which a part is replaced: no text that replaces one has it.
const long = 80

// size is what an object takes in memory, about.
func size(o resource.Object) int {
	n := 200 + len(o.Key.Namespace) + len(o.Key.Name) + len(o.UID) + len(o.Origin.UID) + len(o.Origin.By) + len(o.Ours)
	for _, text := range o.Parts {
		n += len(text)
	}
	return n
}
