package kubestore

import (
	"reflect"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// patch returns the JSON merge patch that makes cur into want, field by field of what
// both have laid out, on the condition that the object is still of cur's version. It is
// "" if there is nothing to change. now is the time of the change.
func (l layout) patch(side resource.Side, cur record, want resource.Object, now string) (string, error) {
	next := cur
	next.Parts, next.Origin = want.Parts, want.Origin
	next.conditions = l.tell(cur.conditions, want.Parts, now)
	from, err := l.lay(cur, side)
	if err != nil {
		return "", err
	}
	to, err := l.lay(next, side)
	if err != nil {
		return "", err
	}
	d := diff(from, to)
	if len(d) == 0 {
		return "", nil
	}
	metadata, ok := d["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		d["metadata"] = metadata
	}
	metadata["uid"], metadata["resourceVersion"] = cur.UID, cur.Version
	return resource.Canonical(d), nil
}

// create returns the whole object that want is.
func (l layout) create(side resource.Side, want resource.Object, now string) (map[string]any, error) {
	root, err := l.lay(record{Object: want, conditions: l.tell(nil, want.Parts, now)}, side)
	if err != nil {
		return nil, err
	}
	root["apiVersion"], root["kind"] = l.resource.GroupVersion().String(), string(want.Key.Kind)
	metadata := root["metadata"].(map[string]any)
	metadata["namespace"], metadata["name"] = want.Key.Namespace, want.Key.Name
	return root, nil
}

// diff returns the JSON merge patch (RFC 7396) from one object to another. Such a patch
// cannot set a field to null; to has none where from has null or nothing.
func diff(from, to map[string]any) map[string]any {
	out := map[string]any{}
	for k := range from {
		if to[k] == nil && from[k] != nil {
			out[k] = nil
		}
	}
	for k, v := range to {
		old := from[k]
		if v == nil || reflect.DeepEqual(old, v) {
			continue
		}
		was, wasMap := old.(map[string]any)
		is, isMap := v.(map[string]any)
		switch {
		case !isMap || !wasMap:
			out[k] = v
		default:
			if d := diff(was, is); len(d) > 0 {
				out[k] = d
			}
		}
	}
	return out
}
