package resource_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// TestOwners holds the table of who owns what, printed as people read it.
func TestOwners(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %-15s %-20s %s\n", "kind", "part", "managed", "autonomous")
	for _, k := range resource.Kinds() {
		for p := range resource.NumParts {
			if !k.Has(p) {
				continue
			}
			fmt.Fprintf(&b, "%-12s %-15s %-20s %s\n", k, p, owners(resource.Managed, k, p), owners(resource.Autonomous, k, p))
		}
	}
	want, err := os.ReadFile("testdata/owners.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
}

// owners says who owns a part, and who makes its own equal to that.
func owners(m resource.Mode, k resource.Kind, p resource.Part) string {
	r, say, mirror := resource.Rules{Mode: m}, []string{}, ""
	for _, s := range []resource.Side{resource.Principal, resource.Agent} {
		if r.Owns(s, k, p) {
			say = append(say, s.String())
		}
		if r.Mirrors(s, k, p) {
			mirror = " -> " + s.String()
		}
	}
	if len(say) == 0 {
		return "-"
	}
	return strings.Join(say, ", ") + mirror
}

func TestNamesRoundTrip(t *testing.T) {
	for p := range resource.NumParts {
		got, ok := resource.PartNamed(p.String())
		require.True(t, ok)
		require.Equal(t, p, got)
	}
	_, ok := resource.PartNamed("nonsense")
	require.False(t, ok)
	for _, m := range []resource.Mode{resource.Managed, resource.Autonomous} {
		got, ok := resource.ParseMode(m.String())
		require.True(t, ok)
		require.Equal(t, m, got)
	}
	_, ok = resource.ParseMode("Managed")
	require.False(t, ok)
}

func metadata() *rapid.Generator[resource.Metadata] {
	return rapid.Custom(func(t *rapid.T) resource.Metadata {
		kv := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d/e"}), rapid.SampledFrom([]string{"", "1", "2", "<&>"}), 0, 4)
		return resource.Metadata{
			Labels: kv.Draw(t, "labels"), Annotations: kv.Draw(t, "annotations"),
			Finalizers: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y"}), 0, 2, rapid.ID[string]).Draw(t, "finalizers"),
		}
	})
}

// TestOverlay holds the rule of ownership by key for all that can be drawn.
func TestOverlay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have, want, ours := metadata().Draw(t, "have"), metadata().Draw(t, "want"), metadata().Draw(t, "ours")
		got := have.Overlay(want, ours)
		for _, c := range []struct{ have, want, ours, got map[string]string }{
			{have.Labels, want.Labels, ours.Labels, got.Labels},
			{have.Annotations, want.Annotations, ours.Annotations, got.Annotations},
		} {
			for k, v := range c.want {
				require.Equal(t, v, c.got[k], "the owner's key")
			}
			for k, v := range c.have {
				_, owner := c.want[k]
				_, our := c.ours[k]
				g, there := c.got[k]
				switch {
				case !owner && our:
					require.False(t, there, "a key that the owner removed")
				case !owner:
					require.Equal(t, v, g, "somebody else's key")
				}
			}
			for k := range c.got {
				_, owner := c.want[k]
				_, had := c.have[k]
				require.True(t, owner || had, "a key out of nowhere")
			}
		}
		require.ElementsMatch(t, want.Finalizers, got.Finalizers)
		require.Equal(t, got.Text(), got.Overlay(want, ours).Text(), "done twice is done once")
	})
}

func TestMetadataText(t *testing.T) {
	require.Empty(t, resource.Metadata{}.Text())
	require.Empty(t, resource.Metadata{Labels: map[string]string{}}.Text())
	require.Equal(t, resource.Metadata{}, resource.ParseMetadata("no JSON"))
	m := resource.Metadata{Annotations: map[string]string{"b": "<2>", "a": "1"}, Finalizers: []string{"y", "x"}}
	require.Equal(t, `{"annotations":{"a":"1","b":"<2>"},"finalizers":["x","y"]}`, m.Text())
	rapid.Check(t, func(t *rapid.T) {
		m := metadata().Draw(t, "metadata")
		require.Equal(t, m.Text(), resource.ParseMetadata(m.Text()).Text())
		require.Equal(t, m.Only(m.Keys()).Text(), m.Text())
	})
}

// TestCanonical holds that numbers and unknown fields survive as they are.
func TestCanonical(t *testing.T) {
	for _, text := range []string{`{"a":12345678901234567890,"b":1.10,"c":1e400}`, `[null,true,"<&>\u2028"]`, `"x"`, `{}`} {
		v, err := resource.Decode(text)
		require.NoError(t, err)
		require.Equal(t, text, resource.Canonical(v))
	}
	v, err := resource.Decode("")
	require.NoError(t, err)
	require.Empty(t, resource.Canonical(v))
	_, err = resource.Decode("{")
	require.Error(t, err)
}

func TestOperations(t *testing.T) {
	at := time.Unix(1_700_000_000, 123456789).UTC()
	id := resource.OperationID("uid", at, `{"sync":{}}`)
	got, ok := resource.OperationNamed(id, "uid", `{"sync":{}}`)
	require.True(t, ok)
	require.True(t, at.Equal(got))
	for _, c := range [][3]string{{id, "another", `{"sync":{}}`}, {id, "uid", `{}`}, {"", "uid", ""}, {"x-y", "uid", ""}} {
		_, ok := resource.OperationNamed(c[0], c[1], c[2])
		require.False(t, ok, c)
	}
	require.NotEqual(t, id, resource.OperationID("uid", at.Add(1), `{"sync":{}}`), "the same request again is another")

	pending := resource.PendingOperation(`{"sync":{"revision":"main"}}`, "edge-1", at)
	require.JSONEq(t, `{"phase":"Running","message":"waiting for agent edge-1","startedAt":"2023-11-14T22:13:20Z","operation":{"sync":{"revision":"main"}}}`, pending)
	require.False(t, resource.OperationFinished(pending))
	for phase, finished := range map[string]bool{"Succeeded": true, "Failed": true, "Error": true, "Running": false, "Terminating": false, "": false} {
		require.Equal(t, finished, resource.OperationFinished(fmt.Sprintf(`{"phase":%q}`, phase)), phase)
	}
	require.False(t, resource.OperationFinished("no JSON"))
}

func TestWithdrawnRequests(t *testing.T) {
	at := time.Unix(1_700_000_000, 123456789).UTC()
	const operation = `{"sync":{"revision":"main"}}`
	id := resource.OperationID("uid", at, operation)
	r := resource.ParseRequests(id)
	require.Equal(t, id, r.ID)
	require.Empty(t, r.Back)
	require.Equal(t, id, r.Text())
	require.Empty(t, resource.Requests{}.Text())
	back := r.Withdraw()
	_, named := resource.OperationNamed(back.Text(), "uid", operation)
	require.False(t, named, "it is not asked for any more")
	back.ID = "another"
	require.Equal(t, resource.Requests{Back: []string{id, "another"}}, resource.ParseRequests(back.Withdraw().Text()))
	for i := range 20 {
		back.ID = fmt.Sprint(i)
		back = back.Withdraw()
	}
	require.Equal(t, []string{"12", "13", "14", "15", "16", "17", "18", "19"}, resource.ParseRequests(back.Text()).Back)
	for _, end := range []resource.Termination{{}, {IDs: []string{id}}, {IDs: []string{"a", id}, Operation: `{"a b":"!"}`}} {
		require.Equal(t, end, resource.ParseTermination(end.Text()))
	}
	require.Empty(t, resource.Termination{}.Text())
	require.Empty(t, resource.Termination{}.Last())
	require.Equal(t, "b", resource.ParseTermination("a!b").Last())

	pending := resource.PendingOperation(operation, "edge-1", at)
	require.True(t, resource.OperationPending(pending, "edge-1"))
	require.True(t, resource.OperationPending(resource.Terminating(pending, operation, at), "edge-1"), "whatever its phase")
	require.False(t, resource.OperationPending(pending, "edge-2"))
	require.False(t, resource.OperationPending("", "edge-1"))

	of, started := resource.OperationOf(pending)
	require.Equal(t, operation, of)
	require.True(t, at.Truncate(time.Second).Equal(started))

	failed := resource.FailedOperation(operation, "because", at, at.Add(time.Minute))
	require.JSONEq(t, `{"phase":"Failed","message":"because","startedAt":"2023-11-14T22:13:20Z","finishedAt":"2023-11-14T22:14:20Z","operation":{"sync":{"revision":"main"}}}`, failed)
	require.True(t, resource.OperationFinished(failed))
	require.JSONEq(t, `{"phase":"Failed","message":"because","startedAt":"2023-11-14T22:13:20Z","finishedAt":"2023-11-14T22:13:20Z","operation":{}}`,
		resource.FailedOperation("", "because", at, at), "a schema demands an operation")

	require.JSONEq(t, `{"phase":"Terminating","newField":1.10}`, resource.Terminating(`{"phase":"Running","newField":1.10}`, operation, at))
	require.JSONEq(t, `{"phase":"Terminating","startedAt":"2023-11-14T22:13:20Z","operation":{"sync":{"revision":"main"}}}`, resource.Terminating("", operation, at))
	require.True(t, resource.OperationTerminating(resource.Terminating("", operation, at)))
	require.False(t, resource.OperationTerminating(pending))
}

func TestRefreshRequests(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	for mark, asked := range map[string]string{"normal": "normal", "hard": "hard", "anything": "normal"} {
		id := resource.RefreshID(mark, at)
		require.Equal(t, asked, resource.RefreshAsked(id))
		require.Equal(t, id, resource.RefreshTaken(resource.TakeRefresh(id, "2026-01-02T03:04:05Z")))
		got, kept := resource.RefreshKept(id)
		require.Equal(t, id, got)
		require.False(t, kept)
		got, kept = resource.RefreshKept(resource.KeepRefresh(id))
		require.Equal(t, id, got)
		require.True(t, kept)
	}
	require.Equal(t, "whatever", resource.RefreshTaken("whatever"))

	const before, later = "2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"
	for name, c := range map[string]struct{ refresh, mark, status, want string }{
		"none was asked for":          {"", "", `{"reconciledAt":"` + later + `"}`, ""},
		"the mark is there":           {"hard-1/" + before, "hard", `{"reconciledAt":"` + later + `"}`, ""},
		"it is done":                  {"hard-1/" + before, "", `{"reconciledAt":"` + later + `"}`, "hard-1"},
		"the mark was rubbed out":     {"hard-1/" + before, "", `{"reconciledAt":"` + before + `"}`, ""},
		"it cannot be reconciled":     {"hard-1/" + before, "", `{"reconciledAt":"` + before + `","conditions":[{"type":"InvalidSpecError"}]}`, "hard-1"},
		"it never was reconciled":     {"hard-1/", "", ``, "hard-1"},
		"before is not of interest":   {"hard-1/", "", `{"reconciledAt":"` + before + `"}`, "hard-1"},
		"there is no status any more": {"hard-1/" + before, "", ``, "hard-1"},
		"somebody speaks of errors":   {"hard-1/" + before, "", `{"conditions":[{"message":"\"type\":\"UnknownError\""}],"reconciledAt":"` + before + `"}`, ""},
		"somebody has meddled there":  {"what", "", `{}`, "what"},
	} {
		o := resource.Object{}
		o.Parts[resource.Refresh], o.Parts[resource.RefreshMark], o.Parts[resource.Status] = c.refresh, c.mark, c.status
		require.Equal(t, c.want, resource.Refreshed(o), name)
	}
}

func TestPolicies(t *testing.T) {
	note := func(k, v string) string {
		return resource.Metadata{Annotations: map[string]string{k: v}}.Text()
	}
	for _, c := range []struct {
		rules  resource.Rules
		note   string
		adopts bool
	}{
		{}, {rules: resource.Rules{Adopt: true}, adopts: true},
		{rules: resource.Rules{Adopt: true}, note: "never"}, {note: "always", adopts: true}, {note: "sometimes"},
	} {
		o := resource.Object{Parts: resource.Parts{resource.Meta: note(resource.AdoptionAnnotation, c.note)}}
		require.Equal(t, c.adopts, c.rules.Adopts(resource.Agent, o), c)
		require.False(t, c.rules.Adopts(resource.Principal, o), "a hub never adopts")
	}
	for _, c := range []struct {
		rules     resource.Rules
		note      string
		recreates bool
	}{
		{recreates: true}, {rules: resource.Rules{Mismatch: resource.Upsert}},
		{note: "upsert"}, {rules: resource.Rules{Mismatch: resource.Upsert}, note: "recreate", recreates: true},
	} {
		require.Equal(t, c.recreates, c.rules.Recreates(resource.Application, note(resource.MismatchAnnotation, c.note)), c)
	}
}
