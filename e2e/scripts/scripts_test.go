package scripts

import (
	"maps"
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
		"nats-server":     natsProgram, // for a page that builds it
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, parameters("testdata", map[string]func(*testscript.TestScript, bool, []string){
		"natsserver":  natsServer,
		"natscluster": natsCluster,
		"kv":          kv,
	}, func(e *testscript.Env) error {
		h := &natsHost{}
		e.Values[natsKey{}] = h
		e.Defer(h.stop)
		return nil
	}))
}

// parameters returns how the scripts of a folder are run, which have more commands than
// others, and are set up by more.
func parameters(dir string, more map[string]func(*testscript.TestScript, bool, []string), setUp func(*testscript.Env) error) testscript.Params {
	commands := map[string]func(*testscript.TestScript, bool, []string){
		"start":    start,
		"await":    await,
		"get":      get,
		"ended":    ended,
		"halt":     halt,
		"times":    times,
		"port":     port,
		"disk":     disk,
		"proxy":    proxy,
		"reverse":  reverse,
		"append":   appendTo,
		"issue":    issue,
		"remember": remember,
	}
	maps.Copy(commands, more)
	return testscript.Params{
		Dir:                 dir,
		Cmds:                commands,
		Condition:           condition,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			p := programs{}
			e.Values[key{}] = p
			e.Defer(p.kill)
			return setUp(e)
		},
	}
}
