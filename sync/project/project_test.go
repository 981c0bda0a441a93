package project_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/project"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

var update = flag.Bool("update", false, "write the tables in testdata anew")

// proxy is the address of an agent's cluster as a cluster secret has it.
func proxy(agent string) string { return "https://proxy:9090?agentName=" + agent }

// edge1 is an agent in namespace mapping whose cluster secret is there.
var edge1 = project.Agent{Name: "edge-1", Namespace: "edge-1", Server: proxy("edge-1")}

func byDestination(a project.Agent) project.Agent {
	a.Destination = true
	return a
}

func unregistered(a project.Agent) project.Agent {
	a.Server = ""
	return a
}

// spec reads a spec.
func spec(t require.TestingT, text string) map[string]any {
	v, err := resource.Decode(text)
	require.NoError(t, err, text)
	m, _ := v.(map[string]any)
	return m
}

// written is the inverse of spec.
func written(s map[string]any) string {
	if s == nil {
		return ""
	}
	return resource.Canonical(s)
}

// to returns the spec of a project with destinations, open to all namespaces.
func to(destinations ...string) string {
	return `{"sourceNamespaces":["*"],"destinations":[` + strings.Join(destinations, ",") + `]}`
}

// table compares a table with the one in testdata.
func table(t *testing.T, name, got string) {
	t.Helper()
	file := "testdata/" + name
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// TestConcerns prints which projects reach which agents.
func TestConcerns(t *testing.T) {
	var b strings.Builder
	for _, group := range concerns {
		fmt.Fprintf(&b, "\n# %s\n\n", group.about)
		for _, text := range group.specs {
			fmt.Fprintln(&b, text)
			for _, a := range group.agents {
				s := spec(t, text)
				reached := "no"
				if project.Concerns(s, a) {
					reached = "yes"
				}
				require.Equal(t, text, written(s), "not changed")
				fmt.Fprintf(&b, "    %-36s %s\n", describe(a), reached)
			}
		}
	}
	table(t, "concerns.txt", strings.TrimPrefix(b.String(), "\n"))
}

func describe(a project.Agent) string {
	text := a.Name
	if a.Namespace != a.Name && !a.Destination {
		text += " in " + a.Namespace
	}
	if a.Destination {
		text += ", destination mapping"
	}
	if a.Server == "" {
		text += ", no cluster secret"
	}
	return text
}

var (
	edge2  = project.Agent{Name: "edge-2", Namespace: "edge-2", Server: proxy("edge-2")}
	edge10 = project.Agent{Name: "edge-10", Namespace: "edge-10", Server: proxy("edge-10")}
	others = []project.Agent{edge1, edge2, edge10}
)

var concerns = []struct {
	about  string
	agents []project.Agent
	specs  []string
}{
	{"By name", others, []string{
		`{"destinations":[{"name":"edge-1","namespace":"*"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"name":"edge-*","namespace":"web"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"name":"edge-?","namespace":"*"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"name":"edge-[12]","namespace":"*"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"name":"{edge-1,edge-10}","namespace":"*"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"name":"edge-[","namespace":"*"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"name":"/edge-.*/","namespace":"*"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"name":"EDGE-1","namespace":"*"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"name":"in-cluster","namespace":"*"}],"sourceNamespaces":["*"]}`,
	}},
	{"By server", []project.Agent{edge1, unregistered(edge1), edge2, unregistered(edge2)}, []string{
		`{"destinations":[{"namespace":"*","server":"*"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"namespace":"*","server":"https://proxy:9090?agentName=edge-1"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"namespace":"*","server":"https://elsewhere?agentName=edge-1"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"namespace":"*","server":"https://*?agentName=edge-*"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"namespace":"*","server":"https://proxy*"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"namespace":"*","server":"https://kubernetes.default.svc"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"name":"in-cluster","namespace":"*","server":"https://kubernetes.default.svc"}],"sourceNamespaces":["*"]}`,
	}},
	{"By name and server: either is enough", []project.Agent{edge1, edge2}, []string{
		`{"destinations":[{"name":"edge-1","namespace":"*","server":"https://1.2.3.4"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"name":"elsewhere","namespace":"*","server":"https://proxy:9090?agentName=edge-1"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"name":"!edge-1","namespace":"*","server":"*"}],"sourceNamespaces":["*"]}`,
	}},
	{"Denied: what is denied stays so, and `!` permits all others", others, []string{
		`{"destinations":[{"name":"edge-*","namespace":"*"},{"name":"!edge-1","namespace":"*"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"name":"!edge-1","namespace":"*"},{"name":"edge-1","namespace":"*"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"name":"!edge-1","namespace":"kube-system"},{"namespace":"*","server":"*"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"name":"!edge-1","namespace":"*"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"name":"!edge-*","namespace":"*"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"namespace":"*","server":"*"},{"namespace":"*","server":"!https://proxy:9090?agentName=edge-1"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"namespace":"*","server":"*"},{"namespace":"kube-system","server":"!https://proxy:9090?agentName=edge-1"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"namespace":"web","server":"*"},{"namespace":"web","server":"!https://proxy:9090?agentName=edge-1"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"name":"edge-1"},{"server":"!https://proxy:9090?agentName=edge-1"}],"sourceNamespaces":["*"]}`,
	}},
	{"Namespaces there", []project.Agent{edge1}, []string{
		`{"destinations":[{"name":"edge-1","namespace":"!kube-system"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"name":"edge-1","namespace":"!*"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"name":"edge-1"}],"sourceNamespaces":["*"]}`,
	}},
	{"No destination", []project.Agent{edge1, byDestination(edge1)}, []string{
		`{"sourceNamespaces":["*"]}`,
		`{"destinations":[],"sourceNamespaces":["*"]}`,
		`{"destinations":[{}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"namespace":"*"}],"sourceNamespaces":["*"]}`,
	}},
	{"Namespaces on the hub", []project.Agent{edge1, {Name: "edge-1", Namespace: "team-a", Server: proxy("edge-1")}, byDestination(edge1)}, []string{
		`{"destinations":[{"namespace":"*","server":"*"}]}`,
		`{"destinations":[{"namespace":"*","server":"*"}],"sourceNamespaces":[]}`,
		`{"destinations":[{"namespace":"*","server":"*"}],"sourceNamespaces":["edge-1"]}`,
		`{"destinations":[{"namespace":"*","server":"*"}],"sourceNamespaces":["team-*","x"]}`,
		`{"destinations":[{"namespace":"*","server":"*"}],"sourceNamespaces":["/^edge-\\d$/"]}`,
		`{"destinations":[{"namespace":"*","server":"*"}],"sourceNamespaces":["/dge/"]}`,
		`{"destinations":[{"namespace":"*","server":"*"}],"sourceNamespaces":["/^((?!edge).)*$/"]}`,
		`{"destinations":[{"namespace":"*","server":"*"}],"sourceNamespaces":["/(/","/"]}`,
		`{"destinations":[{"namespace":"*","server":"*"}],"sourceNamespaces":["!edge-1"]}`,
	}},
	{"Not what Argo CD would write", []project.Agent{edge1, byDestination(edge1)}, []string{
		`{"destinations":{"name":"edge-1"},"sourceNamespaces":["*"]}`,
		`{"destinations":[7,null,[{"name":"edge-1","namespace":"*"}]],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"name":["edge-1"],"namespace":"*"}],"sourceNamespaces":["*"]}`,
		`{"destinations":[{"name":"edge-1","namespace":7}],"sourceNamespaces":"*"}`,
	}},
}

// TestForAgent prints the copies of projects.
func TestForAgent(t *testing.T) {
	var b strings.Builder
	for _, c := range copies {
		s := spec(t, c.spec)
		got := resource.Canonical(project.ForAgent(s, c.agent))
		require.Equal(t, c.spec, written(s), "not changed")
		fmt.Fprintf(&b, "\n# %s\n\nhub      %s\n%-8s %s\n", c.about, c.spec, describe(c.agent), got)
	}
	table(t, "forAgent.txt", strings.TrimPrefix(b.String(), "\n"))
}

var copies = []struct {
	about string
	agent project.Agent
	spec  string
}{
	{"the default project, opened to all namespaces", edge1,
		`{"clusterResourceWhitelist":[{"group":"*","kind":"*"}],"destinations":[{"namespace":"*","server":"*"}],"sourceNamespaces":["*"],"sourceRepos":["*"]}`},
	{"the default project as Argo CD makes it: no Application in the agent's namespace may use it", edge1,
		`{"clusterResourceWhitelist":[{"group":"*","kind":"*"}],"destinations":[{"namespace":"*","server":"*"}],"sourceRepos":["*"]}`},
	{"only the agent's destinations", edge1,
		`{"destinations":[{"name":"edge-1","namespace":"web"},{"name":"edge-2","namespace":"db"},{"name":"edge-*","namespace":"mon"},{"namespace":"hub","server":"https://kubernetes.default.svc"}],"sourceNamespaces":["*"]}`},
	{"by server", edge1,
		`{"destinations":[{"namespace":"web","server":"https://proxy:9090?agentName=edge-1"},{"namespace":"db","server":"https://proxy:9090?agentName=edge-2"}],"sourceNamespaces":["*"]}`},
	{"twice the same", edge1,
		`{"destinations":[{"name":"edge-1","namespace":"web"},{"namespace":"web","server":"*"}],"sourceNamespaces":["*"]}`},
	{"a namespace excluded", edge1,
		`{"destinations":[{"name":"edge-1","namespace":"*"},{"name":"edge-1","namespace":"!kube-system"}],"sourceNamespaces":["*"]}`},
	{"a namespace denied by server", edge1,
		`{"destinations":[{"namespace":"*","server":"*"},{"namespace":"kube-*","server":"!https://proxy:9090?agentName=edge-1"}],"sourceNamespaces":["*"]}`},
	{"another agent denied", edge1,
		`{"destinations":[{"name":"!edge-2","namespace":"*"}],"sourceNamespaces":["*"]}`},
	{"denied by name, permitted by server", edge1,
		`{"destinations":[{"name":"!edge-1","namespace":"web","server":"*"},{"name":"edge-1","namespace":"*"}],"sourceNamespaces":["*"]}`},
	{"denied", edge1,
		`{"destinations":[{"name":"edge-*","namespace":"*"},{"name":"!edge-1","namespace":"*"}],"sourceNamespaces":["*"],"sourceRepos":["*"]}`},
	{"roles stay on the hub, and all else comes as it is", edge1,
		`{"description":"<shop>","destinations":[{"name":"edge-1","namespace":"*","x":{"y":1}}],"namespaceResourceBlacklist":[{"group":"","kind":"Secret"}],"new":[12345678901234567890,null],` +
			`"orphanedResources":{"warn":true},"roles":[{"name":"r","policies":["p, proj:shop:r, applications, *, shop/*, allow"]}],"signatureKeys":[{"keyID":"ABC"}],"sourceNamespaces":["*"],` +
			`"syncWindows":[{"applications":["*"],"duration":"1h","kind":"deny","schedule":"0 22 * * *"}]}`},
	{"destination mapping", byDestination(edge1),
		`{"destinations":[{"name":"edge-1","namespace":"*"}],"roles":[{"name":"r"}],"sourceNamespaces":["team-a","team-b"]}`},
	{"sync windows hold", edge1,
		`{"destinations":[{"name":"edge-1","namespace":"*"}],"sourceNamespaces":["*"],"syncWindows":[{"clusters":["edge-1"],"kind":"deny"},{"clusters":["x","https://proxy:9090?agentName=edge-*"]},{"clusters":["*"]},` +
			`{"clusters":["edge-2","!edge-2"]},{"clusters":["edge-1","https://kubernetes.default.svc"]},{"applications":["*"]},null,7]}`},
	{"sync windows hold, no cluster secret", unregistered(edge1),
		`{"destinations":[{"name":"edge-1","namespace":"*"}],"sourceNamespaces":["*"],"syncWindows":[{"clusters":["https://elsewhere?agentName=edge-1"]},{"clusters":["https://elsewhere?agentName=edge-2"]}]}`},
	{"service accounts", edge1,
		`{"destinationServiceAccounts":[{"defaultServiceAccount":"a","namespace":"web","server":"https://proxy:9090?agentName=edge-1"},{"defaultServiceAccount":"b","server":"https://proxy:9090?agentName=edge-2"},` +
			`{"defaultServiceAccount":"c","server":"*"},{"defaultServiceAccount":"d","server":"https://kubernetes.default.svc"}],"destinations":[{"name":"edge-1","namespace":"*"}],"sourceNamespaces":["*"]}`},
	{"only clusters of the project's own, which a spoke does not know of", edge1,
		`{"destinations":[{"name":"edge-1","namespace":"*"}],"permitOnlyProjectScopedClusters":true,"sourceNamespaces":["*"]}`},
	{"no spec", edge1, ``},
}

// TestTheCopyOfAProjectOfTheHubsOwnClusterIsNone holds that what permits the hub's cluster,
// whose address is that of every spoke's own, permits nothing on a spoke.
func TestTheCopyOfAProjectOfTheHubsOwnClusterIsNone(t *testing.T) {
	for _, d := range []string{
		`{"server":"https://kubernetes.default.svc","namespace":"*"}`,
		`{"name":"in-cluster","namespace":"*"}`,
		`{"name":"in-cluster","server":"https://kubernetes.default.svc","namespace":"*"}`,
	} {
		for _, a := range []project.Agent{edge1, unregistered(edge1), byDestination(edge1)} {
			require.False(t, project.Concerns(spec(t, to(d)), a), d)
			require.NotContains(t, project.ForAgent(spec(t, to(d)), a), "destinations", d)
			require.NotContains(t, project.ForAgent(spec(t, `{"destinations":[`+d+`]}`), a), "destinations", d)
		}
	}
}

func TestOfRepository(t *testing.T) {
	for text, c := range map[string]struct {
		project string
		ok      bool
	}{
		`{"project":"c2hvcA==","url":"aHR0cHM6Ly9naXQ="}`: {"shop", true},
		`{"project":"bXkuc2hvcC0x"}`:                      {"my.shop-1", true},
		`{"project":"c2hvcAo="}`:                          {"shop\n", true}, // as Argo CD reads it: no such project
		`{"project":""}`:                                  {},
		`{"url":"aHR0cHM6Ly9naXQ="}`:                      {},
		`{"project":"shop!"}`:                             {},
		`{"project":7}`:                                   {},
		`{"project":null}`:                                {},
		``:                                                {},
	} {
		got, ok := project.OfRepository(spec(t, text))
		require.Equal(t, c.project, got, text)
		require.Equal(t, c.ok, ok, text)
	}
}
