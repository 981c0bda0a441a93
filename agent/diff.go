package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"sigs.k8s.io/yaml"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// difference returns the unified diff between two versions of an object, of all that an agent
// may write; nil is that there is none. Values in Secrets are not in it.
func difference(k resource.Key, is, becomes *resource.Object) string {
	name := k.String()
	a, b := draft(k, is, becomes, "now"), draft(k, becomes, is, "then")
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: lines(a), FromFile: file(name+" now", is), B: lines(b), ToFile: file(name+" then", becomes), Context: 3,
	})
	if err != nil { // a buffer does not fail
		panic("agent: diff: " + err.Error())
	}
	return text
}

func file(name string, o *resource.Object) string {
	if o == nil {
		return "/dev/null"
	}
	return name
}

// lines returns the lines of a text, each with its end.
func lines(text string) []string {
	all := strings.SplitAfter(text, "\n")
	return slices.DeleteFunc(all, func(line string) bool { return line == "" })
}

// drafted are the parts that a plan shows, as what they are called. The state of an operation
// is shown where it changes: it is the agent's only when an operation begins or is ended.
var drafted = []struct {
	part    resource.Part
	name    string
	changed bool
}{
	{resource.Spec, "spec", false},
	{resource.Operation, "operation", false},
	{resource.OpState, "operationState", true},
}

// draft returns an object as YAML. other is what it is compared with, and version what this
// one is called.
func draft(k resource.Key, o, other *resource.Object, version string) string {
	if o == nil {
		return ""
	}
	doc := map[string]any{}
	meta := resource.ParseMetadata(o.Parts[resource.Meta])
	for name, v := range map[string]any{"labels": meta.Labels, "annotations": meta.Annotations, "finalizers": meta.Finalizers} {
		doc[name] = v
	}
	if o.Origin != (resource.Origin{}) {
		doc["copyOf"] = map[string]any{"uid": o.Origin.UID, "hub": o.Origin.By}
	}
	if mark := o.Parts[resource.RefreshMark]; mark != "" {
		doc["refresh"] = mark
	}
	for _, d := range drafted {
		if text := o.Parts[d.part]; text != "" && (!d.changed || other == nil || other.Parts[d.part] != text) {
			doc[d.name] = value(text)
		}
	}
	if k.Kind.Sealed() {
		var with map[string]any
		if other != nil {
			with, _ = value(other.Parts[resource.Spec]).(map[string]any)
		}
		doc["spec"] = masked(doc["spec"], with, version)
	}
	text, err := yaml.Marshal(tidy(doc))
	if err != nil { // it is made of JSON
		panic("agent: draft: " + err.Error())
	}
	return string(text)
}

// tidy returns doc without what is empty.
func tidy(doc map[string]any) map[string]any {
	for name, v := range doc {
		switch v := v.(type) {
		case map[string]string:
			if len(v) == 0 {
				delete(doc, name)
			}
		case []string:
			if len(v) == 0 {
				delete(doc, name)
			}
		}
	}
	return doc
}

// value returns what a part's text is; what is no JSON is shown as it is.
func value(text string) any {
	v, err := resource.Decode(text)
	if err != nil {
		return text
	}
	return v
}

// masked returns what a Secret holds without its values. It is only told which of them
// are others in the version that it is compared with.
func masked(data any, with map[string]any, version string) any {
	const mask = "****"
	values, ok := data.(map[string]any)
	if !ok {
		return mask
	}
	out := map[string]any{}
	for name, v := range values {
		out[name] = mask
		if old, there := with[name]; there && fmt.Sprint(old) != fmt.Sprint(v) {
			out[name] = mask + " (" + version + ")"
		}
	}
	return out
}
