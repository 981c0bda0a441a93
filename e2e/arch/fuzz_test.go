package arch

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTaskFuzzesAllThatCanBe: what `task fuzz` runs is written down, since one run of go test
// fuzzes one target.
func TestTaskFuzzesAllThatCanBe(t *testing.T) {
	root := filepath.Join("..", "..")
	tasks, err := os.ReadFile(filepath.Join(root, "Taskfile.yml"))
	require.NoError(t, err)
	found := 0
	eachTest(t, func(path string, file *ast.File) {
		dir, err := filepath.Rel(root, filepath.Dir(path))
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Fuzz") {
				continue
			}
			found++
			require.Contains(t, string(tasks), fmt.Sprintf("./%s -run '^$' -fuzz '^%s$'", filepath.ToSlash(dir), f.Name.Name))
		}
	})
	require.NotZero(t, found)
}
