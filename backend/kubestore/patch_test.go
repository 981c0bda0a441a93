package kubestore

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// apply is what the API server does with a merge patch: RFC 7396, section 2.
func apply(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out := map[string]any{}
	if t, ok := target.(map[string]any); ok {
		for k, v := range t {
			out[k] = v
		}
	}
	for k, v := range p {
		if v == nil {
			delete(out, k)
			continue
		}
		out[k] = apply(out[k], v)
	}
	return out
}

// bare returns v without the fields of objects that are null, which a merge patch cannot
// speak of. Those in lists, it can.
func bare(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for k, v := range m {
		if v != nil {
			out[k] = bare(v)
		}
	}
	return out
}

// value draws any JSON value; objects have few keys, so that two of them meet.
func value(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Just[any](true),
		rapid.Map(rapid.SampledFrom([]int64{0, 1, 9007199254740993, -9223372036854775808}), func(n int64) any { return n }),
		rapid.Map(rapid.SampledFrom([]string{"", "a", "<&>", "ü"}), func(s string) any { return s }),
	}
	if depth > 0 {
		kinds = append(kinds,
			rapid.Map(rapid.SliceOfN(value(depth-1), 0, 3), func(l []any) any { return l }),
			rapid.Map(structure(depth-1), func(m map[string]any) any { return m }),
			rapid.Map(structure(depth-1), func(m map[string]any) any { return m }))
	}
	return rapid.OneOf(kinds...)
}

func structure(depth int) *rapid.Generator[map[string]any] {
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), value(depth), 0, 4)
}

func TestDiffIsWhatApplyUndoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := structure(3).Draw(t, "from"), structure(3).Draw(t, "to")
		require.Equal(t, bare(to), bare(apply(from, diff(from, to))))
		require.Empty(t, diff(from, from))
	})
}

func TestDiffNamesOnlyWhatDiffers(t *testing.T) {
	for _, test := range []struct{ from, to, want string }{
		{`{"a":1,"b":2}`, `{"a":1,"b":3}`, `{"b":3}`},
		{`{"a":1}`, `{}`, `{"a":null}`},
		{`{"a":{"x":1,"y":2}}`, `{"a":{"x":1}}`, `{"a":{"y":null}}`},
		{`{"a":[1,2]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"a":{"x":1}}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"a":[1]}`, `{"a":{"x":{}}}`, `{"a":{"x":{}}}`},
		{`{"a":{"x":1}}`, `{"a":{}}`, `{"a":{"x":null}}`},
		{`{"a":null}`, `{}`, `{}`},
		{`{}`, `{"a":null}`, `{}`},
		{`{"a":1}`, `{"a":null}`, `{"a":null}`},
		{`{"a":9007199254740992}`, `{"a":9007199254740993}`, `{"a":9007199254740993}`},
	} {
		parse := func(text string) map[string]any {
			v, err := resource.Decode(text)
			require.NoError(t, err)
			return v.(map[string]any)
		}
		require.Equal(t, test.want, resource.Canonical(diff(parse(test.from), parse(test.to))), "%s to %s", test.from, test.to)
	}
}

// wanted draws the parts that somebody wants an object to have, in canonical form.
func wanted(t *rapid.T, name string) resource.Object {
	var o resource.Object
	text := func(p resource.Part, v any) {
		if rapid.Bool().Draw(t, name+" has "+p.String()) {
			o.Parts[p] = resource.Canonical(v)
		}
	}
	text(resource.Spec, bare(structure(2).Draw(t, name)))
	text(resource.Operation, bare(structure(1).Draw(t, name)))
	text(resource.OpState, bare(structure(1).Draw(t, name)))
	status := bare(structure(2).Draw(t, name)).(map[string]any)
	status["conditions"] = []any{map[string]any{"type": "SyncError", "message": name}}
	text(resource.Status, status)
	keys := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"1", "2"}), 0, 3)
	var cascade []string
	if rapid.Bool().Draw(t, "cascade") {
		cascade = []string{"resources-finalizer.argocd.argoproj.io"}
	}
	o.Parts[resource.Meta] = resource.Metadata{Labels: keys.Draw(t, name), Annotations: keys.Draw(t, name), Finalizers: cascade}.Text()
	o.Parts[resource.OpID] = rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, name)
	o.Parts[resource.Refresh] = rapid.SampledFrom([]string{"", "normal-1", "hard-2/then"}).Draw(t, name)
	o.Parts[resource.RefreshMark] = rapid.SampledFrom([]string{"", "normal", "hard"}).Draw(t, name)
	for _, p := range []resource.Part{resource.Fault, resource.Pending, resource.Held} {
		o.Parts[p] = rapid.SampledFrom([]string{"", "it failed", "again"}).Draw(t, name)
	}
	o.Origin = rapid.SampledFrom([]resource.Origin{{}, {UID: "u", By: "one"}, {UID: "v", By: "two"}}).Draw(t, name)
	return o
}

// TestPatchMakesWhatIsWantedAndNothingElse patches an object on which others have left
// what is none of our business, and looks at all of it.
func TestPatchMakesWhatIsWantedAndNothingElse(t *testing.T) {
	l := layouts[resource.Application]
	rapid.Check(t, func(t *rapid.T) {
		side := rapid.SampledFrom([]resource.Side{resource.Principal, resource.Agent}).Draw(t, "side")
		before := wanted(t, "before")
		before.Key = resource.Key{Kind: resource.Application, Namespace: "n", Name: "a"}
		object, err := l.create(side, before, "then")
		require.NoError(t, err)
		object = apply(object, map[string]any{"metadata": map[string]any{
			"uid": "u", "resourceVersion": "7", "generation": int64(3),
			"annotations": map[string]any{"argocd.argoproj.io/hydrate": "normal"},
			"finalizers":  append(finalizersOf(object), "example.com/theirs"),
		}, "extra": map[string]any{"field": "theirs"}}).(map[string]any)

		cur := l.read(resource.Application, side, &unstructured.Unstructured{Object: object})
		require.Equal(t, before.Parts, cur.Parts)
		require.Equal(t, before.Origin, cur.Origin)
		want := wanted(t, "want")
		text, err := l.patch(side, cur, want, "now")
		require.NoError(t, err)
		if text == "" {
			require.Equal(t, cur.Parts, want.Parts)
			return
		}
		patch, err := resource.Decode(text)
		require.NoError(t, err)
		after := apply(object, patch).(map[string]any)
		u := &unstructured.Unstructured{Object: after}
		got := l.read(resource.Application, side, u)
		require.Equal(t, want.Parts, got.Parts, text)
		require.Equal(t, want.Origin, got.Origin)
		require.Equal(t, map[string]any{"field": "theirs"}, after["extra"])
		require.Equal(t, "normal", u.GetAnnotations()["argocd.argoproj.io/hydrate"])
		require.Contains(t, u.GetFinalizers(), "example.com/theirs")
	})
}

func finalizersOf(object map[string]any) []any {
	list, _, _ := unstructured.NestedFieldNoCopy(object, "metadata", "finalizers")
	out, _ := list.([]any)
	return out
}
