package demo

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// parse returns the object that a manifest of an Application describes, as a store has it.
func parse(manifest []byte) (resource.Object, error) {
	text, err := yaml.YAMLToJSON(manifest)
	if err != nil {
		return resource.Object{}, fmt.Errorf("demo: read manifest: %w", err)
	}
	v, err := resource.Decode(string(text))
	if err != nil {
		return resource.Object{}, fmt.Errorf("demo: read manifest: %w", err)
	}
	m, _ := v.(map[string]any)
	meta, _ := m["metadata"].(map[string]any)
	if m["kind"] != string(resource.Application) || meta["name"] == nil || m["spec"] == nil {
		return resource.Object{}, fmt.Errorf("demo: read manifest: it is no Application: %.60s", text)
	}
	o := resource.Object{Key: resource.Key{Kind: resource.Application, Namespace: fmt.Sprint(meta["namespace"]), Name: fmt.Sprint(meta["name"])}}
	o.Parts[resource.Spec] = resource.Canonical(m["spec"])
	o.Parts[resource.Meta] = resource.ParseMetadata(resource.Canonical(map[string]any{
		"labels": meta["labels"], "annotations": meta["annotations"], "finalizers": meta["finalizers"],
	})).Text()
	return o, nil
}
