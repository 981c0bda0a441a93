package chaos

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/e2e/stack/stacktest"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

var (
	duration  = flag.Duration("duration", time.Minute, "how long the storms last together, over each transport")
	longest   = flag.Duration("storm", 2*time.Minute, "how long one of them lasts at most")
	seed      = flag.Uint64("seed", 0, "what the plan is drawn from; 0 is another one each time")
	programs  = flag.String("programs", "", "a folder that has the two programs; without it they are built")
	transport = flag.String("transport", "leaf,client,grpc", "over which transports, separated by commas")
)

func TestMain(m *testing.M) {
	flag.Parse()
	zerolog.SetGlobalLevel(zerolog.Disabled)         // by which toxiproxy speaks
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // about Argo CD's own finalizer
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	if err := flag.Set("test.parallel", "8"); err != nil { // worlds wait most of their time
		panic(err)
	}
	os.Exit(m.Run())
}

// apart is the spoke of a world whose Applications are mapped by destination.
const apart = "apart"

// ground starts API servers, which worlds share, and builds the programs if need be.
func ground(t *testing.T) (s *stack.Stack, bin string) {
	var clusters []stack.ClusterConfig
	for _, name := range []string{"hub", "spoke", apart} {
		clusters = append(clusters, stack.ClusterConfig{Name: name, CRDs: true, Controllers: true}) // of which one ends foreground deletions
	}
	s = stacktest.Start(t, stack.Config{Clusters: clusters})
	if *programs != "" {
		return s, *programs
	}
	bin = filepath.Join(s.Dir(), "bin")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", bin+"/", "./cli/argocd-agent", "./cli/argocd-agentctl")
	cmd.Dir = filepath.Join("..", "..")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, string(output))
	return s, bin
}

// TestChaos lets it all happen over each transport.
func TestChaos(t *testing.T) {
	s, bin := ground(t)
	t.Run("judge", func(t *testing.T) {
		t.Parallel()
		notices(t, s, bin)
	})
	wanted := strings.Split(*transport, ",")
	for i, c := range carriers() {
		if !slices.Contains(wanted, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if t.Failed() {
					t.Logf("again by: go test ./e2e/chaos -run TestChaos -transport %s -seed %d -duration %s -storm %s", c.name, *seed, *duration, *longest)
				}
			}()
			mapped := *seed%uint64(len(carriers())) == uint64(i)
			t.Logf("seed %d, Applications mapped by destination: %t", *seed, mapped)
			w := newWorld(t, s, bin, c.name, c, mapped, resource.Managed, resource.Autonomous)
			w.live(*seed, *duration)
		})
	}
}

// live plays rounds whose storms last so long together.
func (w *world) live(seed uint64, total time.Duration) {
	d := newDraft(w.model, seed)
	var before map[*program]size
	for round := 0; total > 0; round++ {
		length := min(total, *longest)
		total -= length
		if round > 0 {
			w.forget()
		}
		w.play(d.head(), nil)
		w.agree("the head has arrived")
		if before == nil {
			before = w.sizes()
		}
		acts, troubles := d.storm(length)
		w.t.Logf("seed %d, round %d: %d acts and %d troubles in a storm", seed, round, len(acts), len(troubles))
		w.play(acts, troubles)
		w.judge(before)
		w.summary()
	}
}
