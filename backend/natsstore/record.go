package natsstore

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A record is an Object, and what else its value holds.
type record struct {
	resource.Object
	finalizers []string // those that are none of Argo CD's, sorted
	deleted    string   // since when it is Deleting
	after      uint64   // the revision of the deletion that ended the object before it; 0 is none
	rest       string   // the canonical JSON of all other fields; "" is none
}

// stays reports whether a deletion waits for a finalizer.
func (r record) stays() bool {
	return len(r.finalizers) > 0 || len(resource.ParseMetadata(r.Parts[resource.Meta]).Finalizers) > 0
}

// written returns what r becomes when want is written over it, or why it must not.
func (r record) written(want resource.Object) (record, error) {
	next := r
	m := resource.ParseMetadata(want.Parts[resource.Meta])
	m.Finalizers = slices.DeleteFunc(m.Finalizers, func(f string) bool { return !isCascade(f) })
	next.Key, next.Parts, next.Origin = want.Key, want.Parts, want.Origin
	next.Parts[resource.Meta] = m.Text()
	had := resource.ParseMetadata(r.Parts[resource.Meta]).Finalizers
	for _, f := range m.Finalizers {
		if r.Deleting && !slices.Contains(had, f) {
			return next, fmt.Errorf("%w: no finalizer can be added to an object that is being deleted", backend.ErrRefused)
		}
	}
	next.Ours = backend.Ours(r.Object, next.Object, true)
	return next, nil
}

// marked returns what r becomes when it is deleted and stays.
func (r record) marked(now time.Time) record {
	r.Deleting, r.deleted = true, now.UTC().Format(time.RFC3339)
	return r
}

// isCascade reports whether a finalizer is that of Argo CD's cascading deletion.
func isCascade(finalizer string) bool {
	const cascade = "resources-finalizer.argocd.argoproj.io"
	return finalizer == cascade || strings.HasPrefix(finalizer, cascade+"/")
}

// isText reports whether a part is plain text, and not JSON.
func isText(p resource.Part) bool { return p >= resource.OpID }

// encode returns the value of a record.
func encode(r record) ([]byte, error) {
	rest, err := resource.Decode(r.rest)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", backend.ErrRefused, err)
	}
	root := fields(rest)
	for p := range resource.NumParts {
		if p == resource.Meta || r.Parts[p] == "" {
			continue
		}
		v := any(r.Parts[p])
		if !isText(p) {
			if v, err = resource.Decode(r.Parts[p]); err != nil {
				return nil, fmt.Errorf("%w: %s is no JSON: %w", backend.ErrRefused, p, err)
			}
		}
		root[p.String()] = v
	}
	root["kind"], root["metadata"] = string(r.Key.Kind), r.metadata(fields(root["metadata"]))
	if r.Origin != (resource.Origin{}) {
		root["origin"] = map[string]any{"uid": r.Origin.UID, "by": r.Origin.By}
	}
	ours, err := resource.Decode(r.Ours)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", backend.ErrRefused, err)
	}
	if ours != nil {
		root["ours"] = ours
	}
	if r.after > 0 {
		root["after"] = r.after
	}
	return []byte(resource.Canonical(root)), nil
}

func (r record) metadata(out map[string]any) map[string]any {
	m := resource.ParseMetadata(r.Parts[resource.Meta])
	out["namespace"], out["name"], out["uid"] = r.Key.Namespace, r.Key.Name, r.UID
	if len(m.Labels) > 0 {
		out["labels"] = m.Labels
	}
	if len(m.Annotations) > 0 {
		out["annotations"] = m.Annotations
	}
	if all := slices.Concat(r.finalizers, m.Finalizers); len(all) > 0 {
		out["finalizers"] = all
	}
	if r.Deleting {
		out["deletionTimestamp"] = r.deleted
	}
	return out
}

// decode reads the value of an object k at a revision. One without a UID gets one that it
// keeps until somebody else has written it.
func decode(k resource.Key, revision uint64, value []byte) (r record, err error) {
	text := string(bytes.TrimSpace(value))
	v, err := resource.Decode(text)
	root, ok := v.(map[string]any)
	if err != nil || !ok {
		return r, errors.Join(errors.New("the value is no JSON object"), err)
	}
	d := reader{fields: root}
	r.Key, r.Version = k, strconv.FormatUint(revision, 10)
	d.equal("kind", string(k.Kind))
	for p := range resource.NumParts {
		switch {
		case p == resource.Meta:
		case isText(p):
			r.Parts[p] = d.text(p.String())
		default:
			r.Parts[p] = resource.Canonical(d.take(p.String()))
		}
	}
	origin := d.below("origin")
	r.Origin = resource.Origin{UID: origin.text("uid"), By: origin.text("by")}
	if ours := d.take("ours"); ours != nil {
		r.Ours = resource.ParseMetadata(resource.Canonical(ours)).Text()
	}
	if after := d.take("after"); after != nil {
		r.after, err = strconv.ParseUint(fmt.Sprint(after), 10, 64)
	}
	meta := d.below("metadata")
	r.readMetadata(meta)
	if len(meta.fields) > 0 {
		root["metadata"] = meta.fields
	}
	if len(root) > 0 {
		r.rest = resource.Canonical(root)
	}
	return r, errors.Join(err, d.err, origin.err, meta.err)
}

func (r *record) readMetadata(d *reader) {
	d.equal("namespace", r.Key.Namespace)
	d.equal("name", r.Key.Name)
	if r.UID = d.text("uid"); r.UID == "" {
		r.UID = "kv-" + r.Version
	}
	r.deleted = d.text("deletionTimestamp")
	r.Deleting = r.deleted != ""
	m := resource.Metadata{Labels: d.texts("labels"), Annotations: d.texts("annotations")}
	for _, f := range d.list("finalizers") {
		if isCascade(f) {
			m.Finalizers = append(m.Finalizers, f)
		} else {
			r.finalizers = append(r.finalizers, f)
		}
	}
	slices.Sort(r.finalizers)
	r.Parts[resource.Meta] = m.Text()
}

// A reader takes fields out of a JSON object, and notes the first that is not as it should
// be. What it does not take is left.
type reader struct {
	fields map[string]any
	err    error
}

func (d *reader) fail(name, want string) {
	if d.err == nil {
		d.err = fmt.Errorf("%s is no %s", name, want)
	}
}

func (d *reader) take(name string) any {
	v := d.fields[name]
	delete(d.fields, name)
	return v
}

// equal takes a text that must be the given one, if it is there.
func (d *reader) equal(name, want string) {
	if got := d.text(name); got != "" && got != want {
		d.fail(name, fmt.Sprintf("%q, as its key says", want))
	}
}

func (d *reader) text(name string) string {
	v := d.take(name)
	s, ok := v.(string)
	if v != nil && !ok {
		d.fail(name, "text")
	}
	return s
}

func (d *reader) below(name string) *reader {
	v := d.take(name)
	m, ok := v.(map[string]any)
	if v != nil && !ok {
		d.fail(name, "object")
	}
	return &reader{fields: m}
}

func (d *reader) texts(name string) map[string]string {
	inner, out := d.below(name), map[string]string{}
	for _, k := range slices.Collect(maps.Keys(inner.fields)) {
		out[k] = inner.text(k)
	}
	if inner.err != nil {
		d.fail(name, "object of texts")
	}
	return out
}

func (d *reader) list(name string) (out []string) {
	v := d.take(name)
	list, ok := v.([]any)
	if v != nil && !ok {
		d.fail(name, "list")
	}
	for _, item := range list {
		s, ok := item.(string)
		if !ok {
			d.fail(name, "list of texts")
		}
		out = append(out, s)
	}
	return out
}

// fields returns a JSON object, which is made if there is none.
func fields(v any) map[string]any {
	if m, ok := v.(map[string]any); ok {
		return m
	}
	return map[string]any{}
}
