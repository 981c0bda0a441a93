package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// root is the folder with the manifests.
var root = filepath.Join("..", "..", "deploy")

// argocd is the namespace that they name.
const argocd = "argocd"

// TestMain keeps Helm from saying of each chart that its files are links.
func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// A set is what rendering gives: objects by kind, namespace and name.
type set map[string]*unstructured.Unstructured

// setOf reads a stream of YAML, in which each object is there once.
func setOf(t *testing.T, stream []byte) set {
	s := set{}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(stream), 4096)
	for {
		var u unstructured.Unstructured
		err := decoder.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			require.NotEmpty(t, s)
			return s
		}
		require.NoError(t, err)
		if u.Object == nil {
			continue // nothing between two lines
		}
		name := nameOf(&u)
		require.NotContains(t, s, name)
		s[name] = &u
	}
}

func nameOf(u *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", u.GetKind(), u.GetNamespace(), u.GetName())
}

// stream returns the objects as they are given to an API server.
func (s set) stream(t *testing.T) (out []byte) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		text, err := yaml.Marshal(s[name].Object)
		require.NoError(t, err)
		out = append(append(out, "---\n"...), text...)
	}
	return out
}

// as decodes one of the objects, which has no field that its type has not.
func as[T any](t *testing.T, s set, name string) (out T) {
	require.Contains(t, s, name)
	text, err := json.Marshal(s[name].Object)
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(text, &out), name)
	return out
}

// kustomized returns what kubectl apply -k FOLDER applies.
func kustomized(t *testing.T, folder string) set {
	t.Helper()
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	require.NoError(t, err, folder)
	text, err := objects.AsYaml()
	require.NoError(t, err)
	return setOf(t, text)
}

// overlay returns what a user's kustomization gives that is about a folder of deploy/ and
// components beside it, and says more.
func overlay(t *testing.T, base string, components []string, more string) set {
	t.Helper()
	dir := t.TempDir()
	return kustomization(t, dir, deployed(t, dir, base), components, more)
}

// kustomization is overlay in a folder, about any resource.
func kustomization(t *testing.T, dir, resource string, components []string, more string) set {
	t.Helper()
	text := "resources: [" + resource + "]\ncomponents:\n"
	for _, c := range components {
		text += "- " + deployed(t, dir, c) + "\n"
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text+more), 0o600))
	return kustomized(t, dir)
}

// deployed returns how a folder of deploy/ is named in another folder.
func deployed(t *testing.T, dir, folder string) string {
	t.Helper()
	there, err := filepath.Abs(filepath.Join(root, folder))
	require.NoError(t, err)
	path, err := filepath.Rel(dir, there)
	require.NoError(t, err)
	return path
}

// templated returns what helm install applies, in a namespace, for values in YAML.
func templated(t *testing.T, chart, namespace, values string) set {
	t.Helper()
	text, err := template(t, chart, namespace, values)
	require.NoError(t, err)
	return setOf(t, text)
}

// template is templated as text, or as the error that a user sees.
func template(t *testing.T, name, namespace, values string) ([]byte, error) {
	t.Helper()
	chart, err := loader.LoadDir(filepath.Join(root, "helm", name))
	require.NoError(t, err)
	given, err := chartutil.ReadValues([]byte(values))
	require.NoError(t, err)
	release := chartutil.ReleaseOptions{Name: "r", Namespace: namespace, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, given, release, nil) // which asks the schema
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, path := range slices.Sorted(maps.Keys(files)) {
		out = append(append(out, files[path]...), "\n---\n"...)
	}
	return out, nil
}

// requireSame expects that two ways of rendering give the same objects, but for the order of a
// pod's volumes and ports, which means nothing.
func requireSame(t *testing.T, want, got set) {
	t.Helper()
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	for name := range want {
		require.Equal(t, indented(t, want[name]), indented(t, got[name]), name)
	}
}

func indented(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	if u.GetKind() == "Deployment" {
		pod := u.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		byName(pod["volumes"])
		byName(pod["containers"].([]any)[0].(map[string]any)["ports"])
	}
	text, err := json.MarshalIndent(u.Object, "", " ")
	require.NoError(t, err)
	return string(text)
}

// byName sorts objects by their names.
func byName(objects any) {
	slices.SortFunc(objects.([]any), func(a, b any) int {
		return strings.Compare(a.(map[string]any)["name"].(string), b.(map[string]any)["name"].(string))
	})
}
