package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// scenarios are the faults that must have a test called TestScenarioNN_…, or a story of
// that name, and what each of them is.
var scenarios = map[string]string{
	"01": "statuses of a time apart",
	"02": "changes while the agent is away",
	"03": "a namesake of a time apart",
	"04": "a hundred reconnects with late teardown",
	"05": "a principal that restarts all the time",
	"07": "Applications of megabytes",
	"08": "two hundred names that come and go",
	"09": "a cascade that waits for an agent that is away",
	"10": "teams whose Applications are of one agent",
	"11": "an annotation of the hub's own",
	"12": "programs of other versions",
	"13": "an agent that forgot everything, on a populated spoke",
	"14": "an agent that never was there",
	"15": "a leaf restarted while apart",
	"16": "statuses that flap, and what users do meanwhile",
	"17": "what is excluded while the agent is away",
	"18": "a line that lets nothing pass any more",
	"19": "an autonomous agent's object deleted on the hub",
	"20": "agents that are there before the hub is listed",
	"21": "a message that is never acked",
	"22": "a status that races a deletion",
	"23": "what reads a log vanishes at the server",
	"24": "a forced deletion whose agent is gone for good",
	"25": "bytes that nobody should send",
	"26": "repositories deleted while the principal is down",
	"27": "labels and annotations of a time apart",
	"28": "a deletion that no watch has seen",
	"29": "one message in a thousand that nobody understands",
	"30": "a hub that is away for an hour",
}

// TestScenariosAreTested reads all tests. A scenario counts if a test or a story has its
// name, and no test may be skipped.
func TestScenariosAreTested(t *testing.T) {
	name := regexp.MustCompile(`^"?TestScenario(\d\d)_\w+"?$`)
	found := map[string]bool{}
	eachTest(t, func(path string, file *ast.File) {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if m := name.FindStringSubmatch(f.Name.Name); m != nil {
				found[m[1]] = true
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit:
					if m := name.FindStringSubmatch(n.Value); m != nil {
						found[m[1]] = true
					}
				case *ast.SelectorExpr:
					if name := n.Sel.Name; name == "Skip" || name == "Skipf" || name == "SkipNow" {
						t.Errorf("%s: %s skips", path, f.Name.Name)
					}
				}
				return true
			})
		}
	})
	for number, what := range scenarios {
		if !found[number] {
			t.Errorf("no test is called TestScenario%s_…: %s", number, what)
		}
	}
}

// eachTest calls f for every file of tests of the project.
func eachTest(t *testing.T, f func(path string, file *ast.File)) {
	root := filepath.Join("..", "..")
	files := 0
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files++
		f(path, file)
		return nil
	}))
	require.NotZero(t, files)
}
