package control

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
)

// planned runs the program against a principal with this plan, and returns what it says and
// what it asks for.
func planned(t *testing.T, p admin.Plan, args ...string) (code int, out, errs string, wanted *admin.Adoption) {
	principal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			require.NoError(t, json.NewEncoder(w).Encode(p))
			return
		}
		wanted = &admin.Adoption{}
		require.NoError(t, json.NewDecoder(r.Body).Decode(wanted))
		require.NoError(t, json.NewEncoder(w).Encode(inquiry.Adopted{Done: []string{"Application/web", "Application/shop"}, Pending: []string{"Application/shop"}}))
	}))
	defer principal.Close()
	t.Setenv("ARGOCD_AGENT_PRINCIPAL_ADDRESS", principal.URL)
	var stdout, stderr bytes.Buffer
	code = Main(append([]string{"argocd-agentctl"}, args...), &stdout, &stderr)
	return code, stdout.String(), stderr.String(), wanted
}

func TestPlanIsShown(t *testing.T) {
	p := admin.Plan{Agent: "edge", Plan: inquiry.Plan{Observing: true, Whole: true, Adopted: []string{"Application/a"}, Steps: []inquiry.Step{
		{Kind: "Application", Name: "web", Action: inquiry.TakeOver, Diff: "--- x\n+++ y\n@@ -1 +1 @@\n-a: \x1b[2J\n+a: b\n"},
		{Kind: "Application", Name: "a", Action: inquiry.Delete, Notes: []string{"what it has deployed stays"}, Adopted: true},
	}}}
	code, out, _, _ := planned(t, p, "plan", "edge")
	require.Equal(t, shell.OK, code)
	require.Equal(t, "take over Application/web\n--- x\n+++ y\n@@ -1 +1 @@\n-a: �[2J\n+a: b\n\n"+
		"delete Application/a: what it has deployed stays, it is about to be written\n\n"+
		"agent edge observes: it would change 2 objects, and has adopted 1\n", out)

	_, out, _, _ = planned(t, p, "plan", "edge", "-o", "table")
	require.Equal(t, "ACTION      OBJECT   NOTES\ntake over   Application/web\n"+
		"delete      Application/a   what it has deployed stays, it is about to be written\n"+
		"agent edge observes: it would change 2 objects, and has adopted 1\n", out)

	_, out, _, _ = planned(t, p, "plan", "edge", "-o", "json")
	var read admin.Plan
	require.NoError(t, json.Unmarshal([]byte(out), &read))
	require.Equal(t, p, read)

	for said, p := range map[string]inquiry.Plan{
		"agent edge observes: it would change nothing, and has adopted 0\n":                                                  {Observing: true, Whole: true},
		"agent edge does not observe, and is about to change nothing\n":                                                      {Whole: true},
		"agent edge does not observe, and is about to change nothing; it does not know yet all that the control plane has\n": {},
	} {
		_, out, _, _ = planned(t, admin.Plan{Agent: "edge", Plan: p}, "plan", "edge")
		require.Equal(t, said, out)
	}
}

func TestAdoption(t *testing.T) {
	app := func(ns, name string) admin.Object {
		return admin.Object{Kind: "Application", Namespace: ns, Name: name}
	}
	for _, c := range []struct {
		args []string
		want admin.Adoption
	}{
		{[]string{"web", "shop"}, admin.Adoption{Objects: []admin.Object{app("", "web"), app("", "shop")}}},
		{[]string{"--undo", "team/web"}, admin.Adoption{Undo: true, Objects: []admin.Object{app("team", "web")}}},
		{[]string{"appproject/p", "Application/team/web", "--undo"}, admin.Adoption{Undo: true, Objects: []admin.Object{{Kind: "AppProject", Name: "p"}, app("team", "web")}}},
		{[]string{"--all", "--yes"}, admin.Adoption{All: true}},
	} {
		code, out, errs, wanted := planned(t, admin.Plan{}, append([]string{"adopt", "edge"}, c.args...)...)
		require.Equal(t, shell.OK, code, errs)
		require.Equal(t, c.want, *wanted)
		did := "adopted"
		if c.want.Undo {
			did = "let go"
		}
		require.Equal(t, did+" Application/web\n"+did+" Application/shop, and is not written yet: see argocd-agentctl plan edge, and deadletter list\n"+
			did+" 2 objects of agent edge\n", out)
	}
	const spelled = "write NAME or NAMESPACE/NAME, and before it, with a slash, the kind if it is no Application: ConfigMap, Secret, AppProject, Application"
	for line, args := range map[string][]string{
		"adopt: the agent's name is not given; see --help":                              {},
		"adopt: no object is given, nor --all; see --help":                              {"edge"},
		"adopt: an object and --all are given; see --help":                              {"edge", "web", "--all"},
		`adopt: "a/b/c" names no object; ` + spelled:                                    {"edge", "a/b/c"},
		`adopt: "Foo/bar" names no object; ` + spelled:                                  {"edge", "Foo/bar"},
		`adopt: "" names no object; ` + spelled:                                         {"edge", ""},
		"command line: there is no terminal to ask at, and nothing was done; add --yes": {"edge", "--all"},
		"adopt: there is no flag --force; see --help":                                   {"edge", "web", "--force=1"},
	} {
		code, _, errs, wanted := planned(t, admin.Plan{}, append([]string{"adopt"}, args...)...)
		require.Equal(t, shell.Usage, code, errs)
		require.Equal(t, "argocd-agentctl: "+line+"\n", errs)
		require.Nil(t, wanted)
	}
}
