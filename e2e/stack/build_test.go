package stack

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// tiny returns a builder for a program that prints the name it is called by.
func tiny(t *testing.T, cache string, out *bytes.Buffer) builder {
	t.Helper()
	source := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":  "module example.com/tiny\n\ngo 1.26.0\n",
		"go.sum":  "",
		"main.go": "package main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"path/filepath\"\n)\n\nfunc main() { fmt.Print(filepath.Base(os.Args[0])) }\n",
		"notes":   "taken along",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(source, name), []byte(content), 0o644))
	}
	return builder{
		component: component{
			name: "tiny", title: "Tiny 1", version: "1", links: []string{"small"},
			files: []file{{module: "example.com/tiny", path: "notes", name: "notes.txt"}},
		},
		source: source, cache: cache, out: out,
	}
}

func TestEnsureBuildsOnce(t *testing.T) {
	cache, outs := t.TempDir(), make([]bytes.Buffer, 3)
	first := tiny(t, cache, &outs[0])
	dirs := make([]string, len(outs))
	var group sync.WaitGroup
	for i := range outs {
		b := first
		b.out = &outs[i]
		group.Go(func() {
			dir, err := b.ensure(t.Context())
			if err == nil {
				dirs[i] = dir
			}
		})
	}
	group.Wait()
	require.Equal(t, []string{dirs[0], dirs[0], dirs[0]}, dirs)
	all := outs[0].String() + outs[1].String() + outs[2].String()
	require.Equal(t, 1, strings.Count(all, "building Tiny 1"), all)
	require.Equal(t, 1, strings.Count(all, "built Tiny 1 in"), all)

	output, err := exec.Command(filepath.Join(dirs[0], "small")).Output()
	require.NoError(t, err)
	require.Equal(t, "small", string(output))
	notes, err := os.ReadFile(filepath.Join(dirs[0], "notes.txt"))
	require.NoError(t, err)
	require.Equal(t, "taken along", string(notes))
	left, err := filepath.Glob(filepath.Join(cache, ".tiny-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestHashFollowsSourceAndVersion(t *testing.T) {
	b := tiny(t, t.TempDir(), nil)
	before, err := b.hash()
	require.NoError(t, err)
	b.version = "2"
	version, err := b.hash()
	require.NoError(t, err)
	require.NotEqual(t, before, version)
	require.NoError(t, os.WriteFile(filepath.Join(b.source, "main.go"), []byte("package main\n"), 0o644))
	source, err := b.hash()
	require.NoError(t, err)
	require.NotEqual(t, version, source)
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	b := tiny(t, t.TempDir(), &bytes.Buffer{})
	require.NoError(t, os.WriteFile(filepath.Join(b.source, "main.go"), []byte("package main\n\nfunc main() { broken }\n"), 0o644))
	_, err := b.ensure(t.Context())
	require.ErrorContains(t, err, "broken")
	left, err := filepath.Glob(filepath.Join(b.cache, "*tiny-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestOneVersionOfArgoCDIsBuilt(t *testing.T) {
	for major, name := range map[string]string{"2": "argocd2", "3": "argocd3"} {
		all, err := components(major)
		require.NoError(t, err)
		var names []string
		for _, c := range all {
			names = append(names, c.name)
			_, err := os.Stat(filepath.Join(c.name, "go.mod"))
			require.NoError(t, err)
		}
		require.Equal(t, []string{"kube", name, "kwok"}, names)
	}
	_, err := Build(t.Context(), "1", &bytes.Buffer{})
	require.EqualError(t, err, `stack: build: there is no Argo CD "1": choose one of 2, 3`)
}
