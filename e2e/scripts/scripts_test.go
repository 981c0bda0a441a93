// Package scripts tells how the programs behave on the command line, as stories in
// testdata that can be read, and typed.
package scripts

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/argocd-fabric/argocd-agent/cli/command"
	"github.com/argocd-fabric/argocd-agent/cli/control"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"argocd-agent":    func() { os.Exit(command.Main(os.Args, os.Stdout, os.Stderr)) },
		"argocd-agentctl": func() { os.Exit(control.Main(os.Args, os.Stdout, os.Stderr)) },
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			p := programs{}
			e.Values[key{}] = p
			e.Defer(p.kill)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"start":  start,
			"await":  await,
			"get":    get,
			"ended":  ended,
			"halt":   halt,
			"times":  times,
			"port":   port,
			"append": appendTo,
			"issue":  issue,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}
