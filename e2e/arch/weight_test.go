package arch

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

// heavy packages are in no program, though it would be easy to reach for them: what they bring is
// set up at every start, and stays in the memory of every agent.
var heavy = map[string]string{
	"k8s.io/client-go/kubernetes/scheme": "it has every kind of Kubernetes: use the dynamic client, and for what is served backend/kubeapis",
	"github.com/redis/go-redis/v9":       "it is as large as a NATS server, for a few commands: principal/clusterinfo has a small one",
}

func TestProgramsAreWithoutWhatIsHeavy(t *testing.T) {
	programs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedImports | packages.NeedDeps},
		module+"cli/argocd-agent", module+"cli/argocd-agentctl")
	require.NoError(t, err)
	require.Len(t, programs, 2)
	packages.Visit(programs, nil, func(p *packages.Package) {
		if why, is := heavy[p.PkgPath]; is {
			t.Errorf("a program has %s: %s", p.PkgPath, why)
		}
	})
}
