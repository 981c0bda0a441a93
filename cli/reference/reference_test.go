package reference_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/command"
	"github.com/argocd-fabric/argocd-agent/cli/control"
	"github.com/argocd-fabric/argocd-agent/cli/reference"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
)

var update = flag.Bool("update", false, "write the pages")

// TestThePagesAreWritten keeps deploy/docs/reference equal to what there is.
func TestThePagesAreWritten(t *testing.T) {
	program, control := command.App(io.Discard, io.Discard), control.App(io.Discard, io.Discard)
	for name, text := range map[string]string{
		"argocd-agent.md":    reference.Program(program),
		"argocd-agentctl.md": reference.Program(control),
		"names.md": reference.Names(reference.Facts{
			Events:   meanings(t, events, wire.Types()),
			Marks:    meanings(t, marks, marksInCode(t)),
			Programs: []*cli.Command{program.Command("principal"), program.Command("agent")},
		}),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("..", "..", "deploy", "docs", "reference", name)
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
			}
			is, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, text, string(is), "go test ./cli/reference -update writes it")
		})
	}
}

// events says what each type of event is for, by what follows the prefix.
var events = map[string]string{
	"state":     "what one side says of an object that it owns, or parts of which it owns",
	"tombstone": "it has nothing to say of that object any more",
	"sealed":    "a state that only the two sides of the link can read: of a Secret or a key",
	"manifest":  "the sum of all that one side says, by which the other knows whether it has it all",
	"sums":      "that sum in parts, where the whole one differs",
	"ask":       "what one side lacks of what the other says",
	"fuse":      "deletions that an agent holds until they are approved",
	"approval":  "that they are",
	"seal":      "the public half of the key by which one side can be told what is secret",
}

// marks says what the labels and annotations are for that are read or written.
var marks = map[string]string{
	"argocd-agent.argoproj-labs.io/agent-name":              "label: the agent whose this namespace, cluster Secret or copy is",
	"argocd-agent.argoproj-labs.io/agent-mode":              "label of a cluster Secret: managed or autonomous",
	"argocd-agent.argoproj-labs.io/self-registered-cluster": "label of a cluster Secret that the principal has made by itself",
	"argocd-agent.argoproj-labs.io/ignore-sync":             "label: \"true\" on an object has it left alone, on both sides",
	"argocd-agent.argoproj-labs.io/operation-id":            "annotation: the id of a sync or a refresh that was asked for on the hub",
	"argocd.argoproj.io/source-uid":                         "annotation of a copy: the UID of its original",
	"argocd.argoproj.io/principal-uid":                      "annotation of a copy: which hub it is from",
	"argocd.argoproj.io/adoption-policy":                    "annotation: \"always\" or \"never\", whether an object that was there before becomes a copy, whatever --adoption-policy says",
	"argocd.argoproj.io/source-uid-mismatch-policy":         "annotation of an original: \"recreate\" or \"upsert\", what becomes of its copy where it was deleted and made anew",
	"argocd.argoproj.io/refresh":                            "annotation, Argo CD's own: passed on to the agent, and gone once it is done",
	"argocd.argoproj.io/hydrate":                            "annotation, Argo CD's own: stays where it is",
	"argocd.argoproj.io/secret-type":                        "label, Argo CD's own: what a Secret is; those of clusters are agents, those of repositories travel",
	"argocd.argoproj.io/skip-reconcile":                     "annotation of a cluster Secret, Argo CD's own: \"true\" keeps the hub's controller (3.5 or later) away from agents' clusters",
	"argocd.argoproj.io/tracking-id":                        "annotation, Argo CD's own: by which Application a resource is managed",
	"argocd.argoproj.io/installation-id":                    "annotation, Argo CD's own: by which installation",
}

// meanings returns what names mean, and fails unless each has a meaning and each meaning
// a name.
func meanings(t *testing.T, of map[string]string, names []string) (out []reference.Name) {
	known := slices.Sorted(maps.Keys(of))
	for _, name := range names {
		short := strings.TrimPrefix(name, wire.Prefix)
		require.Contains(t, known, short, "say in this test what %s is", name)
		out = append(out, reference.Name{Name: name, Means: of[short]})
	}
	require.Len(t, out, len(of), "%q: there is more in this test than in the code", known)
	return out
}

var mark = regexp.MustCompile(`^argocd(-agent\.argoproj-labs|\.argoproj)\.io/[a-z-]+$`)

// marksInCode returns all labels and annotations of ours and of Argo CD that are written
// in the programs.
func marksInCode(t *testing.T) []string {
	found := map[string]bool{}
	root := filepath.Join("..", "..")
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains([]string{"e2e", "deploy", "tools", "testdata", "demo", "bench"}, d.Name()) || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil && mark.MatchString(text) {
					found[text] = true
				}
			}
			return true
		})
		return nil
	}))
	return slices.Sorted(maps.Keys(found))
}
