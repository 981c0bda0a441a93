package policy

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
)

// events lets a request pass if it selects the events of one object that is managed: by its
// UID, or by its apiVersion, kind and name. A UID alone does not say where the object is; the
// first of its events does. While there is none, a list is answered as empty.
func (p *Policy) events(ctx context.Context, c request) (passage, error) {
	want, ok := selected(c.Query["fieldSelector"])
	if !ok {
		return passage{}, c.unmanaged("only events of one object are read: its involvedObject.uid, or apiVersion, kind and name are to be selected")
	}
	ref := &want
	if want.UID != "" {
		var at string
		var err error
		ref, at, err = p.tracker.objects.Involved(ctx, c.Namespace, c.Query.Get("fieldSelector"))
		if err != nil {
			return passage{}, err
		}
		if ref == nil && c.Verb == "list" {
			return passage{answer: noEvents(at)}, nil
		}
		if ref == nil {
			return passage{}, c.unmanaged("there is no event yet that says which object this is")
		}
	}
	managed, err := p.refers(ctx, c.Namespace, *ref, want.UID)
	if err != nil {
		return passage{}, err
	}
	if !managed {
		return passage{}, c.unmanaged("no Application of this cluster manages the object")
	}
	return passage{}, nil
}

// refers reports whether a reference from a namespace is to an object that is managed, and has
// a UID if there is one.
func (p *Policy) refers(ctx context.Context, from string, ref corev1.ObjectReference, uid types.UID) (bool, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return false, nil
	}
	k, err := p.tracker.objects.Resource(ctx, gv.WithKind(ref.Kind))
	if err != nil {
		return false, err
	}
	namespace := ref.Namespace
	if namespace == "" && k.Namespaced {
		namespace = from
	}
	if k.Namespaced && !plain(namespace) || !plain(ref.Name) {
		return false, nil
	}
	o, err := p.tracker.objects.Get(ctx, k, namespace, ref.Name)
	if err != nil {
		return false, err
	}
	if uid != "" && o.UID != uid {
		return false, nil
	}
	return p.tracker.managed(ctx, k, o)
}

// selected returns the object that a field selector selects the events of, if it selects those
// of one.
func selected(selectors []string) (ref corev1.ObjectReference, ok bool) {
	if len(selectors) != 1 {
		return ref, false
	}
	selector, err := fields.ParseSelector(selectors[0])
	if err != nil {
		return ref, false
	}
	said := map[string]string{}
	for _, r := range selector.Requirements() {
		if r.Operator == selection.Equals || r.Operator == selection.DoubleEquals {
			said[r.Field] = r.Value
		}
	}
	ref.APIVersion, ref.Kind = said["involvedObject.apiVersion"], said["involvedObject.kind"]
	ref.Namespace, ref.Name = said["involvedObject.namespace"], said["involvedObject.name"]
	ref.UID = types.UID(said["involvedObject.uid"])
	return ref, ref.UID != "" || ref.APIVersion != "" && ref.Kind != "" && ref.Name != ""
}

// noEvents answers by a list of no events, as of a resourceVersion.
func noEvents(at string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		text, err := json.Marshal(corev1.EventList{
			TypeMeta: metav1.TypeMeta{Kind: "EventList", APIVersion: "v1"},
			ListMeta: metav1.ListMeta{ResourceVersion: at},
			Items:    []corev1.Event{},
		})
		if err != nil { // of plain texts: it cannot be
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = w.Write(text) // who does not hear it is gone
	}
}
