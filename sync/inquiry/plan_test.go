package inquiry_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// planner answers with a plan, and remembers what it is told to adopt.
func planner(p inquiry.Plan, err error, told *inquiry.Adoption) func(net.Conn) {
	return over(inquiry.Handler(inquiry.Config{
		Plan: func(context.Context) (inquiry.Plan, error) { return p, err },
		Adopt: func(_ context.Context, a inquiry.Adoption) (inquiry.Adopted, error) {
			*told = a
			return inquiry.Adopted{Done: []string{"Application/web"}, Pending: []string{}}, err
		},
	}))
}

func TestPlanTravels(t *testing.T) {
	for _, p := range []inquiry.Plan{
		{Adopted: []string{}, Steps: []inquiry.Step{}},
		{Observing: true, Whole: true, Adopted: []string{"Application/web"}, Steps: []inquiry.Step{
			{Kind: "Application", Name: "web", Action: inquiry.TakeOver, Notes: []string{"it is refreshed"}, Adopted: true, Diff: "--- a\n+++ b\n@@ -1 +1 @@\n-<a>\n+&\n"},
			{Kind: "AppProject", Namespace: "team", Name: "p", Action: inquiry.Delete},
		}},
	} {
		ask(t, planner(p, nil, nil), func(t *testing.T, c *inquiry.Client) {
			got, err := c.Plan(t.Context())
			require.NoError(t, err)
			require.Equal(t, p, got)
		})
	}
	require.Equal(t, "AppProject/team/p", inquiry.Step{Kind: "AppProject", Namespace: "team", Name: "p"}.Object())
}

func TestAdoptionTravels(t *testing.T) {
	for _, want := range []inquiry.Adoption{
		{Keys: []resource.Key{{Kind: resource.Application, Name: "web"}, {Kind: resource.Secret, Namespace: "ns", Name: "repo"}}},
		{All: true, Undo: true},
	} {
		var told inquiry.Adoption
		ask(t, planner(inquiry.Plan{}, nil, &told), func(t *testing.T, c *inquiry.Client) {
			done, err := c.Adopt(t.Context(), want)
			require.NoError(t, err)
			require.Equal(t, inquiry.Adopted{Done: []string{"Application/web"}, Pending: []string{}}, done)
			require.Equal(t, want, told)
		})
	}
	ask(t, planner(inquiry.Plan{}, fmt.Errorf("agent: Application/own: %w", inquiry.ErrNoObject), &inquiry.Adoption{}), func(t *testing.T, c *inquiry.Client) {
		_, err := c.Adopt(t.Context(), inquiry.Adoption{All: true})
		require.ErrorContains(t, err, "Application/own: the control plane has no such object for this agent")
		_, err = c.Plan(t.Context())
		require.Error(t, err)
	})
}

// What an agent says of its plan is as little trusted as all else.
func TestAHostilePlanIsAnError(t *testing.T) {
	const head = `{"observing":true}` + "\n"
	for name, c := range map[string]struct {
		write func(w io.Writer)
		why   string
	}{
		"nothing":      {func(io.Writer) {}, "answered nothing"},
		"a page":       {func(w io.Writer) { fmt.Fprintln(w, "<html>") }, "invalid character"},
		"another kind": {func(w io.Writer) { fmt.Fprint(w, head+`{"kind":"Pod","name":"a"}`+"\n") }, `kind "Pod" is none`},
		"no name":      {func(w io.Writer) { fmt.Fprint(w, head+`{"kind":"Application"}`+"\n") }, "without a name"},
		"a long note": {func(w io.Writer) {
			fmt.Fprintf(w, head+`{"kind":"Application","name":"a","notes":[%q]}`+"\n", strings.Repeat("a", 1000))
		}, "a text that is none"},
		"too many": {func(w io.Writer) {
			fmt.Fprint(w, head)
			for range 101 {
				fmt.Fprintln(w, `{"kind":"Application","name":"a"}`)
			}
		}, "a longer plan than can be"},
		"too much": {func(w io.Writer) {
			fmt.Fprint(w, head)
			for range 12 {
				fmt.Fprintf(w, `{"kind":"Application","name":"a","diff":%q}`+"\n", strings.Repeat("a", 100<<10))
			}
		}, "a longer plan than can be"},
	} {
		t.Run(name, func(t *testing.T) {
			ask(t, lines(c.write), func(t *testing.T, client *inquiry.Client) {
				client.Limit(100, 1<<20)
				_, err := client.Plan(t.Context())
				require.ErrorContains(t, err, c.why)
			})
		})
	}
}
