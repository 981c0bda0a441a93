package project_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/argocd-fabric/argocd-agent/sync/project"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

const local = "https://kubernetes.default.svc"

var (
	names      = rapid.SampledFrom([]string{"", "*", "edge-1", "edge-*", "edge-?", "edge-2", "in-cluster", "!edge-1", "!edge-2", "!edge-*", "!in-cluster", "!*", "["})
	servers    = rapid.SampledFrom([]string{"", "*", local, proxy("edge-1"), proxy("edge-*"), proxy("edge-2"), "https://*", "!" + local, "!" + proxy("edge-1"), "!" + proxy("edge-2"), "!**", "https://1.2.3.4"})
	namespaces = rapid.SampledFrom([]string{"", "*", "web", "web*", "kube-system", "kube-*", "!web", "!kube-system", "!kube-*", "!*", "!!web", "!"})
	there      = []string{"", "web", "web-2", "kube-system", "kube-public", "other"}
	agents     = rapid.Custom(func(t *rapid.T) project.Agent {
		a := project.Agent{Name: rapid.SampledFrom([]string{"edge-1", "edge-2", "edge-10", "in-cluster"}).Draw(t, "agent")}
		a.Namespace = rapid.SampledFrom([]string{a.Name, "team-a"}).Draw(t, "namespace")
		a.Server = rapid.SampledFrom([]string{"", proxy(a.Name)}).Draw(t, "server")
		a.Destination = rapid.Bool().Draw(t, "destination mapping")
		return a
	})
	sources  = rapid.SampledFrom([][]any{nil, {}, {"*"}, {"edge-1"}, {"edge-*", "x"}, {"/^edge/"}, {"/(/", "/"}, {"team-?"}, {7}})
	policies = rapid.SampledFrom([]string{
		"p, proj:shop:r, applications, get, shop/*, allow", "p,proj:shop:r,logs,*,shop/ns/a,deny", "p, proj:edge-1-shop:r, exec, create, edge-1-shop/edge-1/*, allow",
		"p, proj:shop:r, applications, get, store/*, allow", "p, proj:store:r, applications, get, shop/*, allow", "g, me, role:admin", "",
	})
)

// specs generates specs as Argo CD has them.
func specs(names, servers *rapid.Generator[string]) *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		out := map[string]any{"sourceRepos": []any{"*"}, "syncWindows": []any{map[string]any{"clusters": []any{names.Draw(t, "window"), servers.Draw(t, "window")}}},
			"destinationServiceAccounts": []any{map[string]any{"server": servers.Draw(t, "service account")}}}
		if s := sources.Draw(t, "sourceNamespaces"); s != nil {
			out["sourceNamespaces"] = s
		}
		list := []any{}
		for range rapid.IntRange(0, 4).Draw(t, "destinations") {
			d := map[string]any{}
			for field, text := range map[string]string{"name": names.Draw(t, "name"), "server": servers.Draw(t, "server"), "namespace": namespaces.Draw(t, "namespace")} {
				if text != "" {
					d[field] = text
				}
			}
			list = append(list, d)
		}
		out["destinations"] = list
		if rapid.Bool().Draw(t, "roles") {
			r := map[string]any{"name": "r", "groups": []any{"dev"}, "policies": []any{}}
			for range rapid.IntRange(0, 2).Draw(t, "policies") {
				r["policies"] = append(r["policies"].([]any), policies.Draw(t, "policy"))
			}
			out["roles"] = []any{r}
		}
		return out
	})
}

// A copy permits on the spoke what its original permits in the agent's cluster, nothing
// where the project does not reach, and nothing in any other cluster that the spoke knows.
func TestACopyPermitsWhatItsOriginalPermits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, s := agents.Draw(t, "agent"), specs(names, servers).Draw(t, "spec")
		a.Server = proxy(a.Name)
		before := resource.Canonical(s)
		made := project.ForAgent(s, a)
		require.Equal(t, before, resource.Canonical(s), "not changed")
		require.Equal(t, made, project.ForAgent(made, a), "once more")
		require.NotContains(t, made, "roles")

		reached, some := project.Concerns(s, a), false
		require.Equal(t, reached, made["destinations"] != nil)
		for _, namespace := range there {
			on := project.Permits(s, project.Target{Name: a.Name, Server: a.Server, Namespace: namespace})
			for _, own := range []string{"in-cluster", "", "my-own"} {
				got := project.Permits(made, project.Target{Name: own, Server: local, Namespace: namespace})
				if got {
					require.True(t, reached && on, "%q is permitted on the spoke alone", namespace)
				}
				if reached && !excludes(s) {
					require.Equal(t, on, got, "namespace %q", namespace)
				}
			}
			require.False(t, project.Permits(made, project.Target{Name: "other", Server: "https://1.2.3.4", Namespace: namespace}))
			some = some || on
		}
		if some && (a.Destination || mayUse(s, a)) {
			require.True(t, reached, "permitted on the hub, and not told")
		}
	})
}

// excludes reports whether a destination excludes a namespace: what that forbids depends on
// whether it is by name or by server, and the destinations that are made have both.
func excludes(s map[string]any) bool {
	for _, d := range s["destinations"].([]any) {
		namespace, _ := d.(map[string]any)["namespace"].(string)
		if strings.HasPrefix(namespace, "!") {
			return true
		}
	}
	return false
}

// mayUse reports whether a project is open to Applications of the agent's namespace.
func mayUse(s map[string]any, a project.Agent) bool {
	var patterns []string
	list, _ := s["sourceNamespaces"].([]any)
	for _, p := range list {
		if p, ok := p.(string); ok {
			patterns = append(patterns, p)
		}
	}
	return project.MatchNamespace(patterns, a.Namespace)
}

// What an agent may say of a project is anything at all: on the hub it permits nothing but
// the agent's cluster, from nowhere but the agent's namespace, and speaks of no other project.
func TestClaimPermitsNothingOfOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, s := agents.Draw(t, "agent"), specs(names, servers).Draw(t, "spec")
		name := rapid.SampledFrom([]string{"shop", "my.shop-1", "default", "edge-1-shop", "edge-2-shop"}).Draw(t, "name")
		members := rapid.Bool().Draw(t, "members")
		before := resource.Canonical(s)
		hub, made := project.Claim(name, s, a, members)
		require.Equal(t, before, resource.Canonical(s), "not changed")
		for _, name := range []string{name, hub} {
			hub2, made2 := project.Claim(name, made, a, members)
			require.Equal(t, hub, hub2, "once more")
			require.Equal(t, made, made2, "once more")
		}
		back, ok := project.Unclaim(hub, a.Name)
		require.True(t, ok)
		if !strings.HasPrefix(name, a.Name+"-") {
			require.Equal(t, name, back)
		}

		require.Equal(t, []any{a.Namespace}, made["sourceNamespaces"])
		for _, namespace := range there {
			for _, other := range []project.Target{{Name: "other", Server: proxy("other")}, {Name: "hub", Server: local}, {Name: "edge-100", Server: "https://1.2.3.4"}} {
				other.Namespace = namespace
				require.False(t, project.Permits(made, other), other)
			}
		}
		roles, _ := made["roles"].([]any)
		for _, r := range roles {
			r := r.(map[string]any)
			require.Equal(t, members, r["groups"] != nil)
			for _, p := range r["policies"].([]any) {
				require.Regexp(t, `^p, proj:`+hub+`:r, \w+, [\w*]+, `+hub+`/`+a.Namespace+`/[\w*]+, (allow|deny)$`, p)
			}
		}
	})
}

// On the hub an agent's project permits in the agent's cluster what it permits to the agent
// in its own, if it is about no other.
func TestClaimPermitsWhatTheAgentPermits(t *testing.T) {
	own := specs(rapid.SampledFrom([]string{"", "*", "in-cluster", "!in-cluster", "!other"}), rapid.SampledFrom([]string{"", "*", local, "!" + local, "!https://other"}))
	rapid.Check(t, func(t *rapid.T) {
		s := own.Draw(t, "spec")
		_, made := project.Claim("shop", s, edge1, false)
		for _, namespace := range there {
			spoke := project.Permits(s, project.Target{Name: "in-cluster", Server: local, Namespace: namespace})
			hub := project.Permits(made, project.Target{Name: edge1.Name, Server: edge1.Server, Namespace: namespace})
			if hub || !excludes(s) {
				require.Equal(t, spoke, hub, "namespace %q", namespace)
			}
		}
	})
}

// FuzzAnything holds that nothing in a project is too strange to be read, and that what has
// been said of it stays so.
func FuzzAnything(f *testing.F) {
	for _, group := range concerns {
		for _, text := range group.specs {
			f.Add(text, "edge-1", "shop")
		}
	}
	for _, c := range claims {
		f.Add(c.spec, c.agent.Name, c.name)
	}
	for _, text := range []string{
		`{"destinations":[[[]],{"name":{"a":1},"server":[],"namespace":1e400}],"sourceNamespaces":[["*"],null,"/","//","/(?<=a)\\"],"roles":[[[{}]],{"name":"r","policies":{"a":[]}}]}`,
		`{"destinations":[{"name":"{,{a,b*}","server":"[!]","namespace":"\\"}],"sourceNamespaces":["{}","[","]","[]","[!","**?"]}`,
		`{"roles":[{"name":"r","policies":["p,,,,,","p, proj:shop:r, applications, get, shop/../*, allow"],"groups":{"a":1},"jwtTokens":7}]}`,
	} {
		f.Add(text, "edge-1", "shop")
	}
	f.Fuzz(func(t *testing.T, text, agent, name string) {
		v, err := resource.Decode(text)
		s, ok := v.(map[string]any)
		if err != nil || !ok || !label.MatchString(agent) || len(text) > 1<<12 || strings.Contains(text, "/") && slow(s) {
			return
		}
		before := resource.Canonical(s)
		for _, a := range []project.Agent{{Name: agent}, {Name: agent, Server: proxy(agent), Destination: true}} {
			made := project.ForAgent(s, a)
			require.Equal(t, project.Concerns(s, a), made["destinations"] != nil)
			require.Equal(t, resource.Canonical(made), resource.Canonical(project.ForAgent(made, a)))
			hub, claimed := project.Claim(name, s, a, true)
			_, again := project.Claim(hub, claimed, a, true)
			require.Equal(t, resource.Canonical(claimed), resource.Canonical(again))
		}
		project.Permits(s, project.Target{Name: agent, Server: name, Namespace: name})
		project.OfRepository(s)
		require.Equal(t, before, resource.Canonical(s), "not changed")
	})
}

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// slow reports whether a spec has an expression that may take for ever.
func slow(s map[string]any) bool {
	list, _ := s["sourceNamespaces"].([]any)
	for _, p := range list {
		if p, ok := p.(string); ok && strings.HasPrefix(p, "/") && len(p) > 24 {
			return true
		}
	}
	return false
}
