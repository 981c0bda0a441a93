package arch

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryTestIsInATask: a package whose tests no task runs is tested by nobody. A task names a
// package, or one above it with /..., or the folder that is a module of its own.
func TestEveryTestIsInATask(t *testing.T) {
	root := filepath.Join("..", "..")
	tasks, err := os.ReadFile(filepath.Join(root, "Taskfile.yml"))
	require.NoError(t, err)
	named := map[string]bool{}
	for _, m := range regexp.MustCompile(`\./([\w./-]*\w)(/\.\.\.)?|dir: (\S+)`).FindAllStringSubmatch(string(tasks), -1) {
		named[m[1]+m[2]], named[m[3]+"/..."] = true, true
	}
	eachTest(t, func(file string, _ *ast.File) {
		dir, err := filepath.Rel(root, filepath.Dir(file))
		require.NoError(t, err)
		dir = filepath.ToSlash(dir)
		is := named[dir]
		for up := dir; !is && up != "."; up = path.Dir(up) {
			is = named[up+"/..."]
		}
		require.True(t, is, "Taskfile.yml runs no tests of %s", dir)
	})
}
