package kubestore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A layout says where the parts of a kind of object stand in the Kubernetes API. A new
// kind is a new row of layouts, and nothing else here.
type layout struct {
	resource schema.GroupVersionResource
	// home says that such objects are looked for in the namespace of Argo CD only, and only
	// which of them: others are none of ours, and are never read or written.
	home   bool
	only   selection
	fields []field // a path comes after the paths that it begins with
	// annotations holds, by key, the parts whose texts stand there with commas between. Only
	// the last may have one in it.
	annotations map[string][]resource.Part
	// conditions is the path of the list of conditions. Those whose types are in told are no
	// part of the status: the message of each is a part of its own.
	conditions []string
	told       map[resource.Part]string
}

// A field is a part of an object that stands below a path.
type field struct {
	part   resource.Part
	path   []string
	except []string // fields below path that are not of this part
}

var layouts = map[resource.Kind]layout{
	resource.Application: {
		resource: schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"},
		fields: []field{
			{part: resource.Spec, path: []string{"spec"}},
			{part: resource.Operation, path: []string{"operation"}},
			{part: resource.Status, path: []string{"status"}, except: []string{"operationState"}},
			{part: resource.OpState, path: []string{"status", "operationState"}},
		},
		annotations: map[string][]resource.Part{
			operationIDAnnotation: {resource.OpID, resource.Refresh},
			refreshAnnotation:     {resource.RefreshMark},
		},
		conditions: []string{"status", "conditions"},
		told: map[resource.Part]string{
			resource.Fault:   "AgentError",
			resource.Pending: "AgentPending",
			resource.Held:    "DeletionHeld",
		},
	},
	resource.Project: {
		resource: schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "appprojects"},
		home:     true,
		fields:   []field{{part: resource.Spec, path: []string{"spec"}}},
	},
	resource.Secret: {
		resource: secrets,
		home:     true,
		only:     selection{label: secretTypeLabel, values: []string{"repository", "repo-creds"}},
		fields:   []field{{part: resource.Spec, path: []string{"data"}}},
	},
	resource.ConfigMap: {
		resource: configMaps,
		home:     true,
		only:     selection{name: "argocd-gpg-keys-cm"},
		fields:   []field{{part: resource.Spec, path: []string{"data"}}},
	},
}

// A record is an Object, and what else is in lists of which it owns some items.
type record struct {
	resource.Object
	finalizers []string // those that are none of Argo CD's
	conditions []any    // those of our own
}

// read takes an object of the API apart, and leaves it as it is.
func (l layout) read(kind resource.Kind, side resource.Side, u *unstructured.Unstructured) record {
	r := record{Object: resource.Object{
		Key:      resource.Key{Kind: kind, Namespace: u.GetNamespace(), Name: u.GetName()},
		UID:      string(u.GetUID()),
		Version:  u.GetResourceVersion(),
		Deleting: u.GetDeletionTimestamp() != nil,
	}}
	for _, f := range l.fields {
		v, _, _ := unstructured.NestedFieldNoCopy(u.Object, f.path...)
		if m, ok := v.(map[string]any); ok && len(f.except) > 0 {
			v = f.clean(m)
		}
		if m, ok := v.(map[string]any); ok && under(f.path, l.conditions) {
			v, r.conditions = l.split(m)
		}
		if m, ok := v.(map[string]any); ok && len(m) == 0 && len(f.except) > 0 {
			v = nil // only the fields of others were there
		}
		r.Parts[f.part] = resource.Canonical(v)
	}
	annotations := u.GetAnnotations()
	for key, parts := range l.annotations {
		for i, text := range strings.SplitN(annotations[key], ",", len(parts)) {
			r.Parts[parts[i]] = text
		}
	}
	for p, name := range l.told {
		r.Parts[p] = messageOf(r.conditions, name)
	}
	labels := u.GetLabels()
	r.Origin = readOrigin(side, labels, annotations)
	m := travelling(resource.Metadata{Labels: labels, Annotations: annotations, Finalizers: u.GetFinalizers()})
	r.Parts[resource.Meta] = m.Text()
	for _, f := range u.GetFinalizers() {
		if !isCascade(f) {
			r.finalizers = append(r.finalizers, f)
		}
	}
	if r.Origin != (resource.Origin{}) {
		r.Ours = written(u).Text()
	}
	return r
}

// lay is the inverse of read: it lays the parts of a record out as the API has them.
// What does not differ between two records is laid out alike.
func (l layout) lay(r record, side resource.Side) (map[string]any, error) {
	root := map[string]any{}
	for _, f := range l.fields {
		v, err := resource.Decode(r.Parts[f.part])
		if err != nil {
			return nil, fmt.Errorf("%w: %s is no JSON: %w", backend.ErrRefused, f.part, err)
		}
		if v == nil {
			continue
		}
		if m, ok := v.(map[string]any); ok && len(f.except) > 0 {
			v = f.clean(m)
		}
		if m, ok := v.(map[string]any); ok && under(f.path, l.conditions) {
			v, _ = l.split(m)
		}
		if err := put(root, f.path, v); err != nil {
			return nil, err
		}
	}
	if len(r.conditions) > 0 {
		others, _, _ := unstructured.NestedFieldNoCopy(root, l.conditions...)
		list, _ := others.([]any)
		if err := put(root, l.conditions, slices.Concat(list, r.conditions)); err != nil {
			return nil, err
		}
	}
	root["metadata"] = l.metadata(r, side)
	return root, nil
}

func (l layout) metadata(r record, side resource.Side) map[string]any {
	m := travelling(resource.ParseMetadata(r.Parts[resource.Meta]))
	labels, annotations := texts(m.Labels), texts(m.Annotations)
	for key, parts := range l.annotations {
		var list []string
		for _, p := range parts {
			list = append(list, r.Parts[p])
		}
		if text := strings.TrimRight(strings.Join(list, ","), ","); text != "" {
			annotations[key] = text
		}
	}
	markOrigin(r.Origin, side, labels, annotations)
	// Both are there even if they are empty: to take them away would take away the keys
	// of others.
	out := map[string]any{"labels": labels, "annotations": annotations}
	var finalizers []any
	for _, f := range slices.Concat(r.finalizers, m.Finalizers) {
		finalizers = append(finalizers, f)
	}
	if len(finalizers) > 0 {
		out["finalizers"] = finalizers
	}
	return out
}

// clean returns m without the fields that are not of this part.
func (f field) clean(m map[string]any) map[string]any {
	m = maps.Clone(m)
	for _, name := range f.except {
		delete(m, name)
	}
	return m
}

// split takes our own conditions out of a status.
func (l layout) split(status map[string]any) (without map[string]any, ours []any) {
	name := l.conditions[len(l.conditions)-1]
	list, ok := status[name].([]any)
	if !ok {
		return status, nil
	}
	var others []any
	for _, c := range list {
		if l.tells(conditionType(c)) {
			ours = append(ours, c)
		} else {
			others = append(others, c)
		}
	}
	if len(ours) == 0 {
		return status, nil
	}
	without = maps.Clone(status)
	delete(without, name)
	if len(others) > 0 {
		without[name] = others
	}
	return without, ours
}

func (l layout) tells(name string) bool {
	for _, told := range l.told {
		if told == name {
			return true
		}
	}
	return false
}

// messageOf returns the message of the condition of a type, "" if there is none.
func messageOf(conditions []any, name string) string {
	for _, c := range conditions {
		if conditionType(c) == name {
			text, _ := c.(map[string]any)["message"].(string)
			return text
		}
	}
	return ""
}

// tell returns conditions with the messages that parts have for them; one without a
// message goes, and those that say what they said stay as they are. now is the time of the
// change.
func (l layout) tell(conditions []any, parts resource.Parts, now string) []any {
	for _, p := range slices.Sorted(maps.Keys(l.told)) {
		name, message := l.told[p], parts[p]
		if messageOf(conditions, name) == message {
			continue
		}
		conditions = slices.DeleteFunc(slices.Clone(conditions), func(c any) bool { return conditionType(c) == name })
		if message != "" {
			conditions = append(conditions, map[string]any{"type": name, "message": message, "lastTransitionTime": now})
		}
	}
	return conditions
}

func conditionType(c any) string {
	m, _ := c.(map[string]any)
	text, _ := m["type"].(string)
	return text
}

// put sets the field at path, below which nothing but objects may stand.
func put(root map[string]any, path []string, v any) error {
	for _, name := range path[:len(path)-1] {
		if root[name] == nil {
			root[name] = map[string]any{}
		}
		next, ok := root[name].(map[string]any)
		if !ok {
			return fmt.Errorf("%w: %s is no object", backend.ErrRefused, strings.Join(path[:len(path)-1], "."))
		}
		root = next
	}
	root[path[len(path)-1]] = v
	return nil
}

// under reports whether path is right below parent.
func under(parent, path []string) bool {
	return len(path) == len(parent)+1 && slices.Equal(parent, path[:len(parent)])
}

func texts(kv map[string]string) map[string]any {
	out := make(map[string]any, len(kv))
	for k, v := range kv {
		out[k] = v
	}
	return out
}

// kinds returns the kinds that have a layout, sorted.
func kinds() []resource.Kind {
	return slices.SortedFunc(maps.Keys(layouts), cmp.Compare[resource.Kind])
}
