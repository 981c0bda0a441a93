package arch

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

const module = "github.com/argocd-fabric/argocd-agent/"

// A rule says what the packages under From may import. An entry ends in "/..." for a
// package and all below it. "std" is the standard library.
type rule struct {
	from   string
	may    []string
	reason string
}

// rules are read top down: the first whose from matches decides.
var rules = []rule{
	{"sync/resource", []string{"std"}, "the vocabulary must not know where it is spoken"},
	{"sync/engine", []string{"std", "sync/resource"}, "a decision that can do I/O cannot be simulated"},
	{"sync/seal", []string{"std"}, "what is secret is sealed with the standard library alone, whatever it is and however it travels"},
	{"sync/wire", []string{"std", "sync/seal", "sync/engine", "sync/resource", "transport", "github.com/cloudevents/..."}, "encoding depends on both what is said and how it is carried, and nobody else does"},
	{"sync/ledger", []string{"std", "go.etcd.io/bbolt/..."}, "what is kept of letters does not depend on who writes them"},
	{"sync/trail", []string{"std", "sync/engine", "sync/resource"}, "what becomes of a change is told in words that no session and no witness owns"},
	{"sync/journal", []string{"std", "sync/trail", "sync/engine", "sync/resource"}, "a journal is a witness, and knows no session"},
	{"sync/session", []string{"std", "sync/trail", "sync/seal", "sync/engine", "sync/wire", "sync/ledger", "sync/resource", "backend", "transport", "go.uber.org/zap/...", "golang.org/x/sync/..."}, "a session works with any store and link"},
	{"sync/inquiry", []string{"std", "sync/journal", "sync/engine", "sync/ledger", "sync/resource"}, "what a principal asks of an agent does not depend on how either works"},
	{"sync/observe", []string{"std", "sync/resource", "backend"}, "what keeps hands off a cluster does not depend on who decides what they would do"},
	{"sync/project", []string{"std", "sync/resource", "github.com/gobwas/glob", "github.com/dlclark/regexp2"}, "what a project permits is decided from what it says alone, with the patterns as Argo CD reads them"},
	{"sync/verify", []string{"std", "sync/resource", "backend"}, "what judges the engine must not be the engine"},
	{"transport", []string{"std", "github.com/cloudevents/sdk-go/v2/event"}, "what a link promises holds for all of them"},
	{"transport/identity/workload", []string{"std", "transport/identity", "github.com/spiffe/go-spiffe/v2/..."}, "only this knows who gives identities, and no adapter does"},
	{"transport/identity/...", []string{"std", "transport/identity/...", "golang.org/x/crypto/bcrypt", "go.uber.org/zap/..."}, "identity is the one thing that adapters share"},
	{"transport/linktest/tlstest", []string{"std", "transport", "transport/linktest", "transport/identity/...", "transport/netfault", "github.com/cloudevents/...", "github.com/stretchr/testify/require", "golang.org/x/crypto/bcrypt", "go.uber.org/zap/..."}, "what transports over TLS share knows none of them"},
	{"transport/linktest/...", []string{"std", "transport", "transport/linktest/...", "github.com/cloudevents/...", "github.com/stretchr/testify/require", "go.uber.org/goleak", "golang.org/x/net/nettest", "golang.org/x/sync/errgroup"}, "the suite knows no adapter"},
	{"transport/tunnel", []string{"std", "golang.org/x/net/http/httpproxy", "github.com/coder/websocket"}, "adapters share how a proxy is passed and a websocket carries, and it knows none of them"},
	{"transport/mux", []string{"std", "transport"}, "adapters share how streams are made of packets, and it knows none of them"},
	{"transport/boltfile", []string{"std", "go.etcd.io/bbolt/..."}, "how a file is begun on a full disk is the same for all, and knows nothing of what they keep"},
	{"transport/packetlink", []string{"std", "transport", "transport/mux", "github.com/cloudevents/sdk-go/v2/event", "github.com/cloudevents/sdk-go/v2/types"}, "what makes a Link of packets knows no adapter; events it takes apart itself, as it does so with each"},
	{"transport/memlink", []string{"std", "transport", "transport/mux", "github.com/cloudevents/...", "github.com/google/uuid"}, "adapters know their interface only"},
	{"transport/grpclink", []string{"std", "transport", "transport/identity", "transport/tunnel", "transport/packetlink", "transport/boltfile", "transport/grpclink/linkpb", "google.golang.org/grpc/...", "google.golang.org/protobuf/...", "google.golang.org/genproto/googleapis/rpc/errdetails", "github.com/klauspost/compress/zstd", "go.etcd.io/bbolt/...", "go.uber.org/zap/..."}, "adapters know their interface only, and only this one has gRPC"},
	{"transport/grpclink/linkpb", []string{"std", "google.golang.org/grpc/...", "google.golang.org/protobuf/..."}, "what is on the wire is generated"},
	{"transport/natslink", []string{"std", "transport", "transport/identity", "transport/tunnel", "transport/mux", "transport/boltfile", "go.etcd.io/bbolt/...", "github.com/nats-io/...", "github.com/cloudevents/...", "github.com/klauspost/compress/zstd", "go.uber.org/zap/...", "golang.org/x/sync/...", "golang.org/x/sys/..."}, "adapters know their interface only, and only this one has a NATS server"},
	{"transport/multihub", []string{"std", "transport", "transport/boltfile", "go.etcd.io/bbolt/...", "go.uber.org/zap/...", "golang.org/x/sync/errgroup"}, "what makes one hub of several knows none of them"},
	{"transport/natslink/monitor", []string{"std"}, "what a server says of itself is read from outside"},
	{"transport/natslink/thin", []string{"std"}, "it is tests only, which wait beside those of natslink"},
	{"transport/netfault", []string{"std"}, "a bad network knows nothing of what crosses it"},
	{"backend", []string{"std", "sync/resource"}, "what a store promises holds for all of them"},
	{"backend/storetest", []string{"std", "sync/resource", "backend", "github.com/stretchr/testify/require", "go.uber.org/goleak", "golang.org/x/sync/errgroup"}, "the suite knows no adapter"},
	{"backend/memstore", []string{"std", "sync/resource", "backend"}, "adapters know their interface only"},
	{"backend/natsstore", []string{"std", "sync/resource", "backend", "github.com/nats-io/nats.go/...", "github.com/google/uuid", "go.uber.org/zap/..."}, "a store in NATS needs its client, and no server"},
	{"backend/kubeapis", []string{"std", "k8s.io/api/apidiscovery/v2", "k8s.io/apimachinery/...", "k8s.io/client-go/rest"}, "what an API server serves is asked without all that Kubernetes may serve"},
	{"backend/kubestore", []string{"std", "sync/resource", "backend", "backend/kubeapis", "k8s.io/...", "github.com/go-logr/...", "go.uber.org/zap/...", "golang.org/x/sync/...", "sigs.k8s.io/yaml"}, "only this adapter knows Kubernetes"},
	{"proxy/redis/redistest", []string{"std"}, "what runs Redis for tests does not use what is tested"},
	{"proxy/kubeapi/policy", []string{"std", "proxy/kubeapi/status", "backend/kubeapis", "k8s.io/...", "go.uber.org/zap/..."}, "what may be touched on a spoke is decided there, however it is asked and carried"},
	{"proxy/kubeapi/status", []string{"std", "k8s.io/apimachinery/..."}, "how a refusal reads does not depend on who refuses"},
	{"proxy/kubeapi", []string{"std", "proxy", "proxy/kubeapi/status", "transport", "k8s.io/apimachinery/...", "k8s.io/client-go/rest", "go.uber.org/zap/..."}, "how live requests of the Kubernetes API travel does not depend on who may ask what"},
	{"proxy/token", []string{"std", "transport/identity", "github.com/golang-jwt/jwt/v5/...", "go.uber.org/zap/..."}, "who a token names depends on keys and a clock alone"},
	{"proxy/redis", []string{"std", "proxy", "go.uber.org/zap/..."}, "what of Redis goes over streams does not depend on what carries them, and nothing that takes lengths for true reads it"},
	{"proxy/share", []string{"std", "proxy", "go.uber.org/zap/..."}, "bytes are passed on whatever they say, and whatever carries them"},
	{"proxy", []string{"std", "transport"}, "what live requests share knows neither side nor what is asked"},
	{"principal/admin", []string{"std", "principal", "sync/journal", "sync/inquiry", "sync/verify", "sync/engine", "sync/ledger", "sync/resource", "transport", "go.uber.org/zap/..."}, "what users ask is answered by what the principal and its agents say"},
	{"principal/clusterinfo", []string{"std", "github.com/gomodule/redigo/redis", "go.uber.org/zap/..."}, "what Argo CD shows of a cluster does not depend on how an agent is served, and only this part of the hub knows Redis"},
	{"principal/hybrid", []string{"std", "sync/project"}, "whether a hub may reconcile Applications of its own is decided from facts, whoever has collected them"},
	{"principal/enroll", []string{"std", "sync/resource", "transport", "go.uber.org/zap/...", "k8s.io/apimachinery/pkg/util/validation"}, "who waits to be registered does not depend on where agents are registered"},
	{"principal", []string{"std", "sync/journal", "sync/trail", "sync/seal", "sync/session", "sync/wire", "sync/project", "sync/engine", "sync/ledger", "sync/verify", "sync/resource", "backend", "proxy", "transport", "go.uber.org/zap/...", "golang.org/x/sync/..."}, "the hub works with any adapter, and without the spoke's code"},
	{"agent", []string{"std", "sync/journal", "sync/trail", "sync/seal", "sync/session", "sync/wire", "sync/project", "sync/inquiry", "sync/observe", "sync/engine", "sync/ledger", "sync/verify", "sync/resource", "backend", "proxy", "transport", "go.uber.org/zap/...", "golang.org/x/sync/...", "github.com/pmezard/go-difflib/difflib", "sigs.k8s.io/yaml"}, "the spoke works with any adapter, and without the hub's code"},
	{"deploy/...", []string{"std"}, "manifests are data"},
	{"cli/tracing", []string{"std", "sync/trail", "sync/engine", "sync/resource", "go.opentelemetry.io/...", "go.uber.org/zap/..."}, "only this knows OpenTelemetry, and it knows no session"},
	{"cli/natskeys", []string{"std", "transport/identity/pki", "github.com/nats-io/nkeys", "github.com/nats-io/jwt/v2"}, "keys are made of a CA and chance, wherever they are kept; and what they sign of each other, as JWTs"},
	{"cli/natsservers", []string{"std", "deploy", "cli/natskeys", "github.com/nats-io/nats-server/v2/server"}, "servers that a demonstration or a test starts are those of deploy/nats, and nobody's end of a link"},
	{"cli/failpoint", []string{"std", "sync/resource", "backend", "transport"}, "a point is in an interface, not in an adapter of it"},
	{"cli/...", []string{"std", "cli/...", "principal/...", "agent", "sync/...", "backend/...", "proxy/...", "transport/...", "deploy/...", "github.com/urfave/cli/v2/...", "go.uber.org/zap/...", "golang.org/x/sync/...", "golang.org/x/term", "k8s.io/...", "sigs.k8s.io/yaml", "github.com/prometheus/client_golang/..."}, "programs choose the adapters, and nobody imports a program"},
	{"e2e/...", []string{"*"}, "end-to-end tests may use everything"},
}

func TestImportsFollowTheArrows(t *testing.T) {
	pkgs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedImports | packages.NeedModule}, module+"...")
	require.NoError(t, err)
	require.NotEmpty(t, pkgs)
	used := map[string]bool{}
	for _, p := range pkgs {
		require.Empty(t, p.Errors, p.PkgPath)
		name := strings.TrimPrefix(p.PkgPath, module)
		r, ok := ruleOf(name)
		if !ok {
			t.Errorf("%s is in no rule: say what it may import", name)
			continue
		}
		used[r.from] = true
		for path := range p.Imports {
			if !r.allows(path) {
				t.Errorf("%s imports %s: %s", name, strings.TrimPrefix(path, module), r.reason)
			}
		}
	}
	for _, r := range rules {
		if !used[r.from] {
			t.Errorf("no package is in the rule for %s", r.from)
		}
	}
}

func ruleOf(name string) (rule, bool) {
	for _, r := range rules {
		if matches(r.from, name) {
			return r, true
		}
	}
	return rule{}, false
}

func (r rule) allows(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	std := !strings.Contains(first, ".")
	for _, m := range r.may {
		switch {
		case m == "*", m == "std" && std, matches(m, strings.TrimPrefix(path, module)):
			return true
		}
	}
	return false
}

// matches reports whether a path is the pattern, or below it if that ends in "/...".
func matches(pattern, path string) bool {
	if base, below := strings.CutSuffix(pattern, "/..."); below {
		return path == base || strings.HasPrefix(path, base+"/")
	}
	return path == pattern
}
