package project_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/project"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// TestClaim prints what the hub makes of the projects of autonomous agents.
func TestClaim(t *testing.T) {
	var b strings.Builder
	for _, c := range claims {
		s := spec(t, c.spec)
		name, got := project.Claim(c.name, s, c.agent, c.roles)
		require.Equal(t, c.spec, written(s), "not changed")
		fmt.Fprintf(&b, "\n# %s\n\n%s%s\n  %s\n%s on the hub\n  %s\n", c.about, c.name, map[bool]string{true: ", whose roles have members"}[c.roles], c.spec, name, resource.Canonical(got))
	}
	table(t, "claim.txt", strings.TrimPrefix(b.String(), "\n"))
}

// role returns the spec of a project with one role.
func role(name string, policies ...string) string {
	list := []any{}
	for _, p := range policies {
		list = append(list, p)
	}
	return resource.Canonical(map[string]any{"roles": []any{map[string]any{"name": name, "policies": list}}})
}

var claims = []struct {
	about string
	name  string
	agent project.Agent
	spec  string
	roles bool
}{
	{"the default project", "default", edge1, `{"destinations":[{"namespace":"*","server":"*"}],"sourceRepos":["*"]}`, false},
	{"all else comes as it is", "shop", edge1, `{"description":"<shop>","destinations":[{"name":"in-cluster","namespace":"web","x":1}],"new":[12345678901234567890,null],"syncWindows":[{"kind":"deny"}]}`, false},
	{"no cluster secret yet", "shop", unregistered(edge1), `{"destinations":[{"namespace":"*","server":"https://kubernetes.default.svc"}]}`, false},
	{"namespaces of its own, others' clusters, somebody's namespaces", "shop", edge1,
		`{"destinations":[{"name":"edge-2","namespace":"web"},{"namespace":"db","server":"https://proxy:9090?agentName=edge-2"},{"namespace":"web"}],"sourceNamespaces":["*","argocd"]}`, false},
	{"a namespace excluded", "shop", edge1, `{"destinations":[{"namespace":"*","server":"*"},{"namespace":"!kube-system","server":"*"}]}`, false},
	{"denied in its own cluster", "shop", edge1,
		`{"destinations":[{"namespace":"*","server":"*"},{"namespace":"kube-*","server":"!https://kubernetes.default.svc"},{"name":"!in-cluster","namespace":"web"}]}`, false},
	{"denied in another cluster: `!` permits all others, and must not permit the hub's", "shop", edge1,
		`{"destinations":[{"name":"!edge-1","namespace":"web"},{"namespace":"db","server":"!https://elsewhere"}]}`, false},
	{"no destination", "shop", edge1, `{"destinations":[{"namespace":"*"},7]}`, false},
	{"no spec", "shop", edge1, ``, false},
	{"only clusters of the project's own", "shop", edge1, `{"destinations":[{"namespace":"*","server":"*"}],"permitOnlyProjectScopedClusters":true}`, false},
	{"its own prefix is taken for claimed", "edge-1-shop", edge1, `{}`, false},
	{"another's prefix is not", "edge-2-shop", edge1, `{}`, false},
	{"dots and dashes", "my.shop-1.x", edge1, role("r", "p, proj:my.shop-1.x:r, applications, get, my.shop-1.x/*, allow"), false},
	{"a collision", "b-c", project.Agent{Name: "a", Namespace: "a"}, `{}`, false},
	{"with this one", "c", project.Agent{Name: "a-b", Namespace: "a-b"}, `{}`, false},
	{"members", "shop", edge1, `{"roles":[{"description":"d","groups":["dev"],"jwtTokens":[{"iat":1}],"name":"r"}]}`, false},
	{"members allowed, but those that would be more than one field of a line", "shop", edge1,
		`{"roles":[{"groups":["dev","\"a, b\"","a,b"," x","x\ng, me, role:admin","\"","\"a\"b\"",7,""],"jwtTokens":[{"iat":1}],"name":"r","new":true}]}`, true},
	{"policies", "shop", edge1, role("ci",
		"p, proj:shop:ci, applications, sync, shop/web, allow",
		"p,proj:shop:ci,applicationsets,*,shop/*,deny",
		"  p ,\tproj:shop:ci , logs,get ,shop/team/web,\tallow",
		"p, proj:shop:ci, exec, create, shop/*/*, allow",
		"p, proj:shop:ci, applications, action/apps/Deployment/restart, shop/a.b-c_d*, allow"), false},
	{"policies that are claimed already", "shop", edge1, role("ci", "p, proj:edge-1-shop:ci, applications, sync, edge-1-shop/edge-1/web, allow"), false},
	{"one policy of another's, and the role goes", "shop", edge1, role("ci",
		"p, proj:shop:ci, applications, sync, shop/web, allow",
		"p, proj:shop:ci, applications, sync, store/web, allow"), false},
}

// TestRolesThatAreDropped holds that a role which is about anything but its own project does
// not come to the hub.
func TestRolesThatAreDropped(t *testing.T) {
	const good = "p, proj:shop:ci, applications, get, shop/*, allow"
	for name, policy := range map[string]string{
		"another project's subject":     "p, proj:store:ci, applications, get, shop/*, allow",
		"another role's":                "p, proj:shop:admin, applications, get, shop/*, allow",
		"a user's":                      "p, admin, applications, get, shop/*, allow",
		"a role of Argo CD":             "p, role:readonly, applications, get, shop/*, allow",
		"another project's object":      "p, proj:shop:ci, applications, get, store/*, allow",
		"a project that begins so":      "p, proj:shop:ci, applications, get, shop-2/*, allow",
		"any project":                   "p, proj:shop:ci, applications, get, */*, allow",
		"anything":                      "p, proj:shop:ci, applications, get, *, allow",
		"the project itself":            "p, proj:shop:ci, applications, get, shop, allow",
		"no application":                "p, proj:shop:ci, applications, get, shop/, allow",
		"an empty namespace":            "p, proj:shop:ci, applications, get, shop//web, allow",
		"too deep":                      "p, proj:shop:ci, applications, get, shop/a/b/c, allow",
		"alternatives":                  "p, proj:shop:ci, applications, get, shop/{a}, allow",
		"alternatives of projects":      "p, proj:shop:ci, applications, get, {shop/a}, allow",
		"a resource of the hub":         "p, proj:shop:ci, clusters, create, shop/*, allow",
		"repositories":                  "p, proj:shop:ci, repositories, get, shop/*, allow",
		"any resource":                  "p, proj:shop:ci, *, get, shop/*, allow",
		"no action":                     "p, proj:shop:ci, applications, , shop/*, allow",
		"no effect, as Casbin may":      "p, proj:shop:ci, applications, get, shop/*",
		"too many fields":               "p, proj:shop:ci, applications, get, shop/*, allow, x",
		"another effect":                "p, proj:shop:ci, applications, get, shop/*, Allow",
		"a group":                       "g, me, role:admin",
		"another type":                  "p2, proj:shop:ci, applications, get, shop/*, allow",
		"quotes":                        `"p", "proj:shop:ci", "applications", "get", "shop/*", "allow"`,
		"a quoted field":                `p, proj:shop:ci, applications, get, "shop/*", allow`,
		"half a quote":                  `p, proj:shop:ci, applications, get", shop/*, allow`,
		"a second line":                 good + "\ng, me, role:admin",
		"a line before":                 "g, me, role:admin\n" + good,
		"a line in the middle":          "p, proj:shop:ci, applications, get\n, shop/*, allow",
		"a carriage return":             good + "\r",
		"a comment":                     "# " + good,
		"empty":                         "",
		"a wide space":                  "p,\u00a0proj:shop:ci, applications, get, shop/*, allow",
		"the name it has on the hub, a": "p, proj:edge-1-store:ci, applications, get, edge-1-shop/*, allow",
		"the name it has on the hub, b": "p, proj:edge-1-shop:ci, applications, get, edge-1-store/edge-1/*, allow",
	} {
		t.Run(name, func(t *testing.T) {
			_, kept := project.Claim("shop", spec(t, role("ci", good)), edge1, true)
			require.Contains(t, kept, "roles")
			_, dropped := project.Claim("shop", spec(t, role("ci", good, policy)), edge1, true)
			require.NotContains(t, dropped, "roles")
		})
	}
	for _, name := range []string{"", "a b", "x:y", "x\np, me, applications, *, */*, allow", "-x", "x,y", `"x"`} {
		_, dropped := project.Claim("shop", spec(t, role(name)), edge1, true)
		require.NotContains(t, dropped, "roles", "a role called %q", name)
	}
	for _, text := range []string{`{"roles":[{"name":"r","policies":"p"}]}`, `{"roles":[{"name":"r","policies":[7]}]}`, `{"roles":[{"name":7}]}`, `{"roles":[7,null,[]]}`, `{"roles":{"name":"r"}}`} {
		_, dropped := project.Claim("shop", spec(t, text), edge1, true)
		require.NotContains(t, dropped, "roles", text)
	}
}

// TestClaimIsDone holds that no agent can keep the hub busy by a pattern.
func TestClaimIsDone(t *testing.T) {
	for _, pattern := range []string{strings.Repeat("*", 200_000) + "x", strings.Repeat("{a,", 50_000), strings.Repeat("[!a]*", 50_000)} {
		for _, field := range []string{"name", "server", "namespace"} {
			for _, p := range []string{pattern, "!" + pattern} {
				list := []any{map[string]any{"name": "in-cluster", "namespace": "*"}, map[string]any{field: p}}
				_, made := project.Claim("shop", map[string]any{"destinations": list}, edge1, false)
				require.NotEmpty(t, made["destinations"])
			}
		}
	}
}

func TestUnclaim(t *testing.T) {
	for _, c := range []struct {
		hub, agent, name string
		ok               bool
	}{
		{"edge-1-shop", "edge-1", "shop", true},
		{"edge-1-my.shop-1", "edge-1", "my.shop-1", true},
		{"edge-1-edge-1-shop", "edge-1", "edge-1-shop", true},
		{"a-b-c", "a", "b-c", true},
		{"a-b-c", "a-b", "c", true},
		{"edge-10-shop", "edge-1", "", false},
		{"edge-1", "edge-1", "", false},
		{"edge-1-", "edge-1", "", false},
		{"default", "edge-1", "", false},
		{"", "edge-1", "", false},
	} {
		name, ok := project.Unclaim(c.hub, c.agent)
		require.Equal(t, c.name, name, c.hub)
		require.Equal(t, c.ok, ok, c.hub)
		if ok && name != "edge-1-shop" {
			again, _ := project.Claim(name, nil, project.Agent{Name: c.agent}, false)
			require.Equal(t, c.hub, again)
		}
	}
}
