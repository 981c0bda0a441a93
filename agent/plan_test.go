package agent

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

const finalizer = "resources-finalizer.argocd.argoproj.io"

// made returns an object of these parts.
func made(k resource.Key, parts resource.Parts, of string) *resource.Object {
	o := &resource.Object{Key: k, UID: "1", Parts: parts}
	if of != "" {
		o.Origin = resource.Origin{UID: of, By: "hub-1"}
	}
	return o
}

// What a plan says of each kind of change.
func TestStep(t *testing.T) {
	web := app("", "web")
	there := resource.Parts{
		resource.Spec: `{"project":"default","source":{"path":"a","targetRevision":"v1"}}`,
		resource.Meta: resource.Metadata{Labels: map[string]string{"team": "blue"}}.Text(), resource.Status: `{"health":"fine"}`,
	}
	want := there
	want[resource.Spec] = `{"project":"default","source":{"path":"a","targetRevision":"v2"}}`
	want[resource.Status] = ""
	cascading := there
	cascading[resource.Meta] = resource.Metadata{Finalizers: []string{finalizer}}.Text()
	run := want
	run[resource.Operation], run[resource.RefreshMark] = `{"sync":{}}`, resource.RefreshHard
	ended := there
	ended[resource.OpState] = `{"phase":"Terminating"}`
	stranger, copied := made(web, there, ""), made(web, there, "h1")

	for name, c := range map[string]struct {
		is      *resource.Object
		becomes []*resource.Object
		action  inquiry.Action
		notes   []string
		diff    string
	}{
		"create": {nil, []*resource.Object{made(web, want, "h1")}, inquiry.Create, nil, `--- /dev/null
+++ Application/web then
@@ -0,0 +1,10 @@
+copyOf:
+  hub: hub-1
+  uid: h1
+labels:
+  team: blue
+spec:
+  project: default
+  source:
+    path: a
+    targetRevision: v2
`},
		"take over": {stranger, []*resource.Object{made(web, want, "h1")}, inquiry.TakeOver, nil, `--- Application/web now
+++ Application/web then
@@ -1,7 +1,10 @@
+copyOf:
+  hub: hub-1
+  uid: h1
 labels:
   team: blue
 spec:
   project: default
   source:
     path: a
-    targetRevision: v1
+    targetRevision: v2
`},
		"change and run": {copied, []*resource.Object{made(web, run, "h1")}, inquiry.Update, []string{"it runs an operation", "it is refreshed"}, `--- Application/web now
+++ Application/web then
@@ -3,8 +3,11 @@
   uid: h1
 labels:
   team: blue
+operation:
+  sync: {}
+refresh: hard
 spec:
   project: default
   source:
     path: a
-    targetRevision: v1
+    targetRevision: v2
`},
		"end": {copied, []*resource.Object{made(web, ended, "h1")}, inquiry.Update, []string{"an operation is ended"}, `--- Application/web now
+++ Application/web then
@@ -3,6 +3,8 @@
   uid: h1
 labels:
   team: blue
+operationState:
+  phase: Terminating
 spec:
   project: default
   source:
`},
		"delete":           {copied, []*resource.Object{nil}, inquiry.Delete, []string{"what it has deployed stays"}, ""},
		"delete all":       {made(web, cascading, "h1"), []*resource.Object{nil}, inquiry.Delete, []string{"with all that it has deployed"}, ""},
		"delete all then":  {copied, []*resource.Object{made(web, cascading, "h1"), nil}, inquiry.Delete, []string{"with all that it has deployed"}, ""},
		"release and lose": {made(web, cascading, "h1"), []*resource.Object{copied, nil}, inquiry.Delete, []string{"what it has deployed stays"}, ""},
		"recreate":         {copied, []*resource.Object{nil, made(web, want, "h2")}, inquiry.Recreate, []string{"what it has deployed stays"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := step(engine.Change{Key: web, Is: c.is, Becomes: c.becomes})
			require.Equal(t, c.action, s.Action)
			require.Equal(t, c.notes, s.Notes)
			if c.diff != "" {
				require.Equal(t, c.diff, s.Diff)
			}
			require.Equal(t, "Application/web", s.Object())
			require.NotContains(t, s.Diff, "health", "what is the spoke's is not written")
		})
	}
}

// No value of a Secret is in a plan, nor anything by which one could be guessed.
func TestStepOfASecret(t *testing.T) {
	k := resource.Key{Kind: resource.Secret, Name: "repo"}
	is := made(k, resource.Parts{resource.Spec: `{"password":"c2VjcmV0","type":"Z2l0","url":"aHR0cHM6"}`}, "")
	then := made(k, resource.Parts{resource.Spec: `{"password":"aHVudGVyMg==","type":"Z2l0","username":"bWU="}`}, "h1")
	s := step(engine.Change{Key: k, Is: is, Becomes: []*resource.Object{then}})
	require.Equal(t, `--- Secret/repo now
+++ Secret/repo then
@@ -1,4 +1,7 @@
+copyOf:
+  hub: hub-1
+  uid: h1
 spec:
-  password: '**** (now)'
+  password: '**** (then)'
   type: '****'
-  url: '****'
+  username: '****'
`, s.Diff)
	for _, c := range []engine.Change{
		{Key: k, Becomes: []*resource.Object{then}},
		{Key: k, Is: is, Becomes: []*resource.Object{nil}},
		{Key: k, Is: made(k, resource.Parts{resource.Spec: `"c2VjcmV0"`}, ""), Becomes: []*resource.Object{made(k, resource.Parts{resource.Spec: "no JSON: c2VjcmV0"}, "h1")}},
	} {
		s := step(c)
		require.Empty(t, s.Notes)
		for _, value := range []string{"c2VjcmV0", "Z2l0", "aHR0cHM6", "aHVudGVyMg", "bWU="} {
			require.NotContains(t, s.Diff, value)
		}
	}
}

func TestNothingIsPlannedBeforeAnythingIsKnown(t *testing.T) {
	a := &Agent{}
	_, err := a.plan(context.Background())
	require.ErrorIs(t, err, errEarly)
}
