package real

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// A shipped is what a user applies of deploy/ on one cluster.
type shipped struct {
	name    string
	objects []unstructured.Unstructured
}

// render has kubectl render a folder of deploy/ with components, as kubectl apply -k does.
func (w *world) render(t *testing.T, base string, components ...string) shipped {
	t.Helper()
	dir, err := os.MkdirTemp(w.tmp(), "kustomize-")
	require.NoError(t, err)
	text := "resources: [" + folderOf(t, dir, base) + "]\ncomponents:\n"
	for _, c := range components {
		text += "- " + folderOf(t, dir, c) + "\n"
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600))
	cmd := exec.CommandContext(t.Context(), w.stack.Binaries().Path("kubectl"), "kustomize", dir)
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, string(output))
	require.NoError(t, os.RemoveAll(dir)) // programs that end leave nothing there, and that is looked at
	s := shipped{name: strings.Join(append([]string{base}, components...), " with ")}
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(output), 4096); ; {
		var u unstructured.Unstructured
		err := decoder.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return s
		}
		require.NoError(t, err, s.name)
		s.objects = append(s.objects, u)
	}
}

// folderOf returns how a folder of deploy/ is named in another folder.
func folderOf(t *testing.T, dir, folder string) string {
	t.Helper()
	there, err := filepath.Abs(filepath.Join("..", "..", "deploy", folder))
	require.NoError(t, err)
	path, err := filepath.Rel(dir, there)
	require.NoError(t, err)
	return path
}

// one decodes the only object of a kind.
func one[T any](t *testing.T, s shipped, kind string) (out T) {
	t.Helper()
	i := slices.IndexFunc(s.objects, func(u unstructured.Unstructured) bool { return u.GetKind() == kind })
	require.GreaterOrEqual(t, i, 0, "%s has a %s", s.name, kind)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(s.objects[i].Object, &out))
	return out
}

// process returns the arguments and the environment that a kubelet gives the program, where a
// user has changed settings in the ConfigMap that have to be others here.
func (s shipped) process(t *testing.T, settings map[string]string) (args, env []string) {
	t.Helper()
	params := one[corev1.ConfigMap](t, s, "ConfigMap")
	container := one[appsv1.Deployment](t, s, "Deployment").Spec.Template.Spec.Containers[0]
	for key, value := range settings {
		require.Contains(t, params.Data, key)
		params.Data[key] = value
	}
	for _, e := range container.Env {
		if from := e.ValueFrom.ConfigMapKeyRef; from != nil {
			require.Equal(t, params.Name, from.Name)
			if value, ok := params.Data[from.Key]; ok {
				env = append(env, e.Name+"="+value)
			}
		}
	}
	return container.Args, env
}
