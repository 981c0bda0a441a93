package verify_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/verify"
)

var (
	key     = resource.Key{Kind: resource.Application, Namespace: "ns", Name: "a"}
	managed = verify.Options{Mode: resource.Managed, Hub: "hub-1", Agent: "spoke"}
	remote  = verify.Options{Mode: resource.Autonomous, Hub: "hub-1", Agent: "spoke"}
)

// twins returns an original and its copy that agree, written by by.
func twins(by string) (original, made resource.Object) {
	parts := resource.Parts{
		resource.Spec:    `{"n":1}`,
		resource.Meta:    `{"labels":{"team":"a"},"annotations":{"note":"x"},"finalizers":["f"]}`,
		resource.Status:  `{"health":"Healthy"}`,
		resource.OpState: `{"phase":"Succeeded"}`,
	}
	original = resource.Object{Key: key, UID: "u1", Version: "1", Parts: parts}
	made = resource.Object{
		Key: key, UID: "c1", Version: "7", Parts: parts, Origin: resource.Origin{UID: "u1", By: by},
		Ours: `{"labels":{"team":""},"annotations":{"note":""}}`,
	}
	return original, made
}

// cases change twins, and say what is then found.
var cases = []struct {
	name   string
	change func(original, made *resource.Object)
	want   []verify.What
}{
	{"nothing", func(o, m *resource.Object) {}, nil},
	{"spec", func(o, m *resource.Object) { m.Parts[resource.Spec] = `{"n":2}` }, []verify.What{verify.Spec}},
	{"status", func(o, m *resource.Object) { o.Parts[resource.Status] = "" }, []verify.What{verify.Status}},
	{"operation state", func(o, m *resource.Object) { o.Parts[resource.OpState] = "" }, []verify.What{verify.OpState}},
	{"operation state while one is asked for", func(o, m *resource.Object) {
		o.Parts[resource.OpState] = ""
		o.Parts[resource.Operation] = "{}"
	}, nil},
	{"operation state while one runs", func(o, m *resource.Object) {
		o.Parts[resource.OpState] = ""
		m.Parts[resource.Operation] = "{}"
	}, nil},
	{"which request was taken", func(o, m *resource.Object) { m.Parts[resource.OpID] = "17-x" }, nil},
	{"a label's value", func(o, m *resource.Object) {
		m.Parts[resource.Meta] = `{"labels":{"team":"b"},"annotations":{"note":"x"},"finalizers":["f"]}`
	}, []verify.What{verify.Label}},
	{"a label that is missing", func(o, m *resource.Object) {
		m.Parts[resource.Meta] = `{"annotations":{"note":"x"},"finalizers":["f"]}`
	}, []verify.What{verify.Label}},
	{"a label and an annotation left over", func(o, m *resource.Object) { o.Parts[resource.Meta] = `{"finalizers":["f"]}` },
		[]verify.What{verify.Label, verify.Annotation}},
	{"somebody else's keys", func(o, m *resource.Object) {
		m.Parts[resource.Meta] = `{"labels":{"team":"a","x":"y"},"annotations":{"note":"x","z":"1"},"finalizers":["f"]}`
	}, nil},
	{"finalizers", func(o, m *resource.Object) {
		m.Parts[resource.Meta] = `{"labels":{"team":"a"},"annotations":{"note":"x"}}`
	}, []verify.What{verify.Finalizers}},
	{"a namesake that is nobody's copy", func(o, m *resource.Object) { m.Origin = resource.Origin{} }, []verify.What{verify.Origin}},
	{"the copy of another", func(o, m *resource.Object) { m.Origin.UID = "u0" }, []verify.What{verify.Origin}},
	{"the copy by another", func(o, m *resource.Object) { m.Origin.By = "hub-0" }, []verify.What{verify.Origin}},
	{"both on their way out", func(o, m *resource.Object) {
		o.Deleting, m.Deleting = true, true
		m.Parts[resource.Spec] = "{}"
	}, nil},
	{"a copy on its way out", func(o, m *resource.Object) { m.Deleting = true }, []verify.What{verify.Vanishing}},
	{"an original that is excluded", func(o, m *resource.Object) { o.Excluded, m.Origin.UID = true, "u0" }, nil},
	{"a copy that is excluded", func(o, m *resource.Object) { m.Excluded, m.Parts[resource.Spec] = true, "{}" }, nil},
}

func TestWhatIsFound(t *testing.T) {
	for _, c := range cases {
		for _, o := range []verify.Options{managed, remote} {
			t.Run(c.name+"/"+o.Mode.String(), func(t *testing.T) {
				original, made := twins(writer(o))
				c.change(&original, &made)
				var found []verify.What
				for _, d := range compare(o, &original, &made) {
					require.Equal(t, key, d.Key)
					require.NotEqual(t, d.Hub, d.Spoke)
					found = append(found, d.What)
				}
				require.Equal(t, c.want, found)
			})
		}
	}
}

// The copy of an original that is being deleted is to be deleted too where that is made known,
// and is a copy as any other where it is not.
func TestAnOriginalOnItsWayOut(t *testing.T) {
	for _, c := range []struct {
		verify.Options
		resource.Kind
		want []verify.What
	}{
		{managed, resource.Application, []verify.What{verify.Undeleted}},
		{managed, resource.Project, nil},
		{remote, resource.Application, nil},
	} {
		original, made := twins(writer(c.Options))
		original.Key.Kind, made.Key.Kind = c.Kind, c.Kind
		original.Deleting = true
		var found []verify.What
		for _, d := range compare(c.Options, &original, &made) {
			found = append(found, d.What)
		}
		require.Equal(t, c.want, found, c.Kind)
		made.Parts[resource.Spec] = "{}"
		require.NotEmpty(t, compare(c.Options, &original, &made))
	}
}

func TestObjectsWithoutATwin(t *testing.T) {
	for _, o := range []verify.Options{managed, remote} {
		original, made := twins(writer(o))
		require.Equal(t, verify.Missing, compare(o, &original, nil)[0].What)
		require.Equal(t, verify.Extra, compare(o, nil, &made)[0].What)
		made.Deleting = true
		require.Contains(t, compare(o, nil, &made)[0].Reason, "being deleted")
		made.Origin.By = "another"
		if o.Mode == resource.Managed {
			require.Contains(t, compare(o, nil, &made)[0].Reason, "another")
		} else {
			require.Empty(t, compare(o, nil, &made), "it is that of another agent")
		}

		original.Deleting = true
		require.Empty(t, compare(o, &original, nil), "it waits for somebody else's finalizer")
		made.Origin = resource.Origin{}
		require.Empty(t, compare(o, nil, &made), "it is nobody's copy")
		made.Excluded = true
		require.Empty(t, compare(o, nil, &made))
	}
}

func TestAnyWriterWillDoIfNoneIsNamed(t *testing.T) {
	original, made := twins("whoever")
	require.Empty(t, compare(verify.Options{}, &original, &made))
	require.NotEmpty(t, compare(managed, &original, &made))
}

func TestDifferencesAreToldInOrderAndShort(t *testing.T) {
	original, made := twins("hub-1")
	original.Parts[resource.Fault] = "the webhook says no"
	original.Parts[resource.Spec] = `{"text":"` + strings.Repeat("é", 500) + `A` + strings.Repeat("z", 500) + `"}`
	made.Parts[resource.Spec] = `{"text":"` + strings.Repeat("é", 500) + `B` + strings.Repeat("z", 500) + `"}`
	last, first := original, original
	last.Key.Name, first.Key.Name = "z", "0"
	got := verify.Compare(managed, []resource.Object{last, original, first}, []resource.Object{made})
	require.Len(t, got, 3)
	require.Equal(t, []string{"0", "a", "z"}, []string{got[0].Key.Name, got[1].Key.Name, got[2].Key.Name})
	d := got[1]
	require.Contains(t, d.Hub, "A")
	require.Contains(t, d.Spoke, "B")
	require.Less(t, len(d.Hub), 150)
	require.True(t, strings.HasPrefix(d.Hub, "…é"), d.Hub)
	require.Equal(t, "the webhook says no", d.Reason)
	require.Contains(t, d.String(), "Application/ns/a: spec: hub has …")
	require.Contains(t, d.String(), "(the webhook says no)")
	require.Contains(t, got[0].String(), "spoke has nothing")
}

func writer(o verify.Options) string {
	if o.Mode == resource.Autonomous {
		return o.Agent
	}
	return o.Hub
}

// compare hands an original and its copy to Compare, each as the side that it is on.
func compare(o verify.Options, original, made *resource.Object) []verify.Difference {
	list := func(o *resource.Object) []resource.Object {
		if o == nil {
			return nil
		}
		return []resource.Object{*o}
	}
	if o.Mode == resource.Autonomous {
		return verify.Compare(o, list(made), list(original))
	}
	return verify.Compare(o, list(original), list(made))
}
