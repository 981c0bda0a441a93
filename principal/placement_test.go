package principal

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func TestPlacementKeys(t *testing.T) {
	app := func(ns, name string) resource.Key {
		return resource.Key{Kind: resource.Application, Namespace: ns, Name: name}
	}
	for name, c := range map[string]struct {
		hub    resource.Key
		link   resource.Key
		theirs bool
	}{
		"in the agent's namespace":   {app("edge-1", "guestbook"), app("", "guestbook"), true},
		"dots in the name":           {app("edge-1", "a.b.c"), app("", "a.b.c"), true},
		"in another's namespace":     {app("edge-10", "guestbook"), resource.Key{}, false},
		"in the principal's own":     {app("argocd", "guestbook"), resource.Key{}, false},
		"in none":                    {app("", "guestbook"), resource.Key{}, false},
		"nameless, as no object is":  {app("edge-1", ""), resource.Key{}, false},
		"named like its own agent":   {app("edge-1", "edge-1"), app("", "edge-1"), true},
		"a project":                  {resource.Key{Kind: resource.Project, Namespace: "argocd", Name: "p"}, resource.Key{Kind: resource.Project, Name: "p"}, true},
		"a project beside the agent": {resource.Key{Kind: resource.Project, Namespace: "edge-1", Name: "p"}, resource.Key{}, false},
		"a repository":               {resource.Key{Kind: resource.Secret, Namespace: "argocd", Name: "r"}, resource.Key{Kind: resource.Secret, Name: "r"}, true},
		"what does not travel":       {resource.Key{Kind: "Pod", Namespace: "argocd", Name: "p"}, resource.Key{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := Placement{Agent: "edge-1", Namespace: "argocd"}
			link, ok := p.Out(c.hub)
			require.Equal(t, c.theirs, ok)
			require.Equal(t, c.link, link)
			if ok {
				back, ok := p.In(link)
				require.True(t, ok)
				require.Equal(t, c.hub, back)
			}
		})
	}
	for _, hostile := range []resource.Key{app("edge-2", "guestbook"), app("argocd", "x"), app("edge-1", "x"), app("", "")} {
		_, ok := Placement{Agent: "edge-1", Namespace: "argocd"}.In(hostile)
		require.False(t, ok, hostile)
	}
}

// Under destination mapping a key has the namespace that its Application has on the hub, but
// for Argo CD's own.
func TestPlacementKeysByDestination(t *testing.T) {
	p := Placement{Agent: "edge-1", Namespace: "argocd", Destination: true}
	project := resource.Key{Kind: resource.Project, Namespace: "argocd", Name: "p"}
	for _, c := range []struct{ hub, link resource.Key }{
		{app("argocd", "web"), app("", "web")},
		{app("team-a", "web"), app("team-a", "web")},
		{app("edge-1", "web"), app("edge-1", "web")},
		{project, resource.Key{Kind: resource.Project, Name: "p"}},
	} {
		link, ok := p.Out(c.hub)
		require.True(t, ok, c.hub)
		require.Equal(t, c.link, link)
		back, ok := p.In(link)
		require.True(t, ok, c.link)
		require.Equal(t, c.hub, back)
	}
	beside := resource.Key{Kind: resource.Project, Namespace: "team-a", Name: "p"}
	for _, none := range []resource.Key{app("argocd", "web"), app("team-a", ""), beside} {
		_, ok := p.In(none)
		require.False(t, ok, none)
	}
	for _, none := range []resource.Key{app("", "web"), beside} {
		_, ok := p.Out(none)
		require.False(t, ok, none)
	}
	var parts resource.Parts
	parts[resource.Spec] = `{"destinations":[{"name":"edge-*","namespace":"web"}],"sourceNamespaces":["team-a"]}`
	require.Equal(t, `{"destinations":[{"name":"edge-1","namespace":"web","server":"https://kubernetes.default.svc"}],"sourceNamespaces":["team-a"]}`,
		p.Down(project, parts)[resource.Spec])
}

func TestAim(t *testing.T) {
	for spec, agent := range map[string]string{
		`{"destination":{"name":"edge-1","namespace":"web"}}`:              "edge-1",
		`{"destination":{"name":"in-cluster"}}`:                            "",
		`{"destination":{"server":"https://proxy:9090?agentName=edge-1"}}`: "edge-1",
		`{"destination":{"name":7}}`:                                       "",
		`{"destination":"edge-1"}`:                                         "",
		`[]`:                                                               "",
		``:                                                                 "",
	} {
		require.Equal(t, agent, aim(spec), spec)
	}
}

func TestPlacementOfParts(t *testing.T) {
	const child = `{"resources":[{"group":"argoproj.io","kind":"Application","name":"c","namespace":"argocd"},` +
		`{"group":"argoproj.io","kind":"AppProject","namespace":"argocd"},{"kind":"Service","namespace":"web"},7]}`
	for name, c := range map[string]struct {
		mode     resource.Mode
		up       bool
		kind     resource.Kind
		part     resource.Part
		from, to string
	}{
		"down, by name": {
			part: resource.Spec,
			from: `{"destination":{"name":"edge-1","namespace":"web"},"project":"default"}`,
			to:   `{"destination":{"namespace":"web","server":"https://kubernetes.default.svc"},"project":"default"}`,
		},
		"down, by server": {
			part: resource.Spec,
			from: `{"destination":{"server":"https://proxy:9090?agentName=edge-1"}}`,
			to:   `{"destination":{"server":"https://kubernetes.default.svc"}}`,
		},
		"down, nothing else changes": {
			part: resource.Spec,
			from: `{"destination":{"server":"x"},"n":12345678901234567890,"source":{"helm":{"values":"a: <b>\n"}}}`,
			to:   `{"destination":{"server":"https://kubernetes.default.svc"},"n":12345678901234567890,"source":{"helm":{"values":"a: <b>\n"}}}`,
		},
		"down, without a destination": {
			part: resource.Spec, from: `{}`, to: `{"destination":{"server":"https://kubernetes.default.svc"}}`,
		},
		"down, no spec":   {part: resource.Spec, from: ``, to: ``},
		"down, no object": {part: resource.Spec, from: `[1]`, to: `[1]`},
		"down, status":    {part: resource.Status, from: child, to: child},
		"down, a project": {
			kind: resource.Project, part: resource.Spec,
			from: `{"destinations":[{"name":"edge-*","namespace":"web"},{"name":"other"}],"roles":[{"name":"r"}],"sourceNamespaces":["edge-1"],"syncWindows":[{"kind":"deny"}]}`,
			to:   `{"destinations":[{"name":"edge-1","namespace":"web","server":"https://kubernetes.default.svc"}],"syncWindows":[{"kind":"deny"}]}`,
		},
		"down, a repository":  {kind: resource.Secret, part: resource.Spec, from: `{"a":"YQ=="}`, to: `{"a":"YQ=="}`},
		"down, autonomous":    {mode: resource.Autonomous, part: resource.Spec, from: `{"project":"p"}`, to: `{"project":"p"}`},
		"up, managed":         {up: true, part: resource.Spec, from: `{"project":"p"}`, to: `{"project":"p"}`},
		"up, managed, status": {up: true, part: resource.Status, from: child, to: child},
		"up, a project": {
			up: true, mode: resource.Autonomous, kind: resource.Project, part: resource.Spec,
			from: `{"destinations":[{"namespace":"web","server":"*"}],"sourceNamespaces":["*"]}`,
			to:   `{"destinations":[{"name":"edge-1","namespace":"web"}],"sourceNamespaces":["edge-1"]}`,
		},
		"up, operation is no spec": {up: true, mode: resource.Autonomous, part: resource.Operation, from: `{"project":"p"}`, to: `{"project":"p"}`},
		"up, by server": {
			up: true, mode: resource.Autonomous, part: resource.Spec,
			from: `{"destination":{"namespace":"web","server":"https://kubernetes.default.svc"},"project":"shop"}`,
			to:   `{"destination":{"name":"edge-1","namespace":"web"},"project":"edge-1-shop"}`,
		},
		"up, another's cluster and project": {
			up: true, mode: resource.Autonomous, part: resource.Spec,
			from: `{"destination":{"name":"edge-2"},"project":"edge-2-shop"}`,
			to:   `{"destination":{"name":"edge-1"},"project":"edge-1-edge-2-shop"}`,
		},
		"up, project left out": {
			up: true, mode: resource.Autonomous, part: resource.Spec,
			from: `{"destination":7}`,
			to:   `{"destination":{"name":"edge-1"},"project":"edge-1-default"}`,
		},
		"up, children": {
			up: true, mode: resource.Autonomous, part: resource.Status, from: child,
			to: `{"resources":[{"group":"argoproj.io","kind":"Application","name":"c","namespace":"edge-1"},` +
				`{"group":"argoproj.io","kind":"AppProject","namespace":"argocd"},{"kind":"Service","namespace":"web"},7]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := Placement{Agent: "edge-1", Mode: c.mode}
			place := p.Down
			if c.up {
				place = p.Up
			}
			kind := c.kind
			if kind == "" {
				kind = resource.Application
			}
			key := resource.Key{Kind: kind, Name: "it"}
			var from, to resource.Parts
			from[c.part], to[c.part] = c.from, c.to
			require.Equal(t, to, place(key, from))
			require.Equal(t, to, place(key, to), "once more")
		})
	}
}

// What an agent may say is anything at all: Up must make it the agent's own, and stay put.
func TestPlacementClaims(t *testing.T) {
	word := rapid.SampledFrom([]string{"", "a", "a-b", "b", "default", "edge"})
	rapid.Check(t, func(t *rapid.T) {
		p := Placement{Agent: rapid.SampledFrom([]string{"a", "a-b", "edge"}).Draw(t, "agent"), Mode: resource.Autonomous}
		spec := map[string]any{"project": word.Draw(t, "project")}
		if rapid.Bool().Draw(t, "aimed") {
			spec["destination"] = map[string]any{word.Draw(t, "field"): "x", "name": word.Draw(t, "name"), "server": word.Draw(t, "server")}
		}
		var said resource.Parts
		said[resource.Spec] = resource.Canonical(spec)
		key := resource.Key{Kind: resource.Application, Name: "it"}
		made := p.Up(key, said)
		v, err := resource.Decode(made[resource.Spec])
		require.NoError(t, err)
		got := v.(map[string]any)
		require.Regexp(t, "^"+p.Agent+"-.", got["project"])
		to := got["destination"].(map[string]any)
		require.Equal(t, p.Agent, to["name"])
		require.NotContains(t, to, "server")
		require.Equal(t, made, p.Up(key, made))
	})
}
