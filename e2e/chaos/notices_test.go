package chaos

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// notices: the judge sees what went wrong. An API server that lies makes the agent believe in
// deletions and changes that never were, and things are put down to the programs that they have
// not done.
func notices(t *testing.T, s *stack.Stack, bin string) {
	w := newWorld(t, s, bin, "judged", carriers()[2], false, resource.Managed)
	e, d := w.estates[0], newDraft(w.model, 1)
	w.play(d.head(), nil)
	w.agree("the head has arrived")
	gate, kept := w.gates[w.agents[0]], key{resource.Application, "kept-4"}
	at := func(v verb, k key) {
		a := act{verb: v, key: k, n: d.next(), policy: metav1.DeletePropagationForeground, where: onOriginal}
		e.apply(a)
		require.NoError(t, e.do(t.Context(), a))
	}

	gate.fail(&failure{of: isDelete, share: 10, act: succeeds})
	plain := e.keys(func(k key, o *object) bool { return k.kind == resource.Application && !o.kept && !o.cascades() })
	require.NotEmpty(t, plain)
	at(remove, plain[0])
	w.misses(t, plain[0].String()+" of judged-managed is at the agent, and should not be")
	gate.set("")
	w.agree("a deletion that did not take place is made up for")

	gate.fail(&failure{of: func(r *http.Request) bool { return r.Method == http.MethodPatch }, share: 10, act: pretends})
	at(edit, kept)
	w.misses(t, kept.String()+" of judged-managed at the agent: its spec is")
	gate.set("")
	at(edit, kept)
	w.agree("an edit takes place again")

	w.noticesPutDown(e, gate, kept)
	w.noticesIgnored(e, at)
	w.noticesWays(e, kept)
	_, err := e.spoke.in(resource.Application).Patch(t.Context(), bystander, "application/merge-patch+json", []byte(`{"spec":{"project":"other"}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.ErrorContains(t, w.verdict(t.Context()), "bystanders were")
}

// locked does something by the judge's own hand, under the lock of whom it misleads.
func locked(mu *sync.Mutex, f func()) {
	mu.Lock()
	defer mu.Unlock()
	f()
}

// noticesPutDown: what is put down to the programs, and they have not done.
func (w *world) noticesPutDown(e *estate, gate *gate, kept key) {
	t, c := w.t, e.controller
	locked(&c.mu, func() { c.runs["request-0"]++ })
	require.ErrorContains(t, w.verdict(t.Context()), "nobody has asked judged-managed for request-0")
	locked(&e.mu, func() { e.asked["request-0"] = true })
	require.NoError(t, w.verdict(t.Context()))
	locked(&c.mu, func() { c.runs["request-0"]++ })
	require.ErrorContains(t, w.verdict(t.Context()), "request-0 of judged-managed has run 2 times, and was terminated 0 times")
	locked(&c.mu, func() { c.runs["request-0"]-- })
	locked(&c.mu, func() { c.ended["request-0"]++ })
	require.ErrorContains(t, w.verdict(t.Context()), "request-0 of judged-managed has run 1 times, and was terminated 1 times")
	locked(&c.mu, func() { delete(c.ended, "request-0") })
	locked(&e.mu, func() { e.asked["endless-0"] = true })
	require.ErrorContains(t, w.verdict(t.Context()), "endless-0 of judged-managed is over, and nobody has terminated it")
	locked(&e.mu, func() { e.ended["endless-0"] = true })
	require.NoError(t, w.verdict(t.Context()), "it was taken back before anybody took it")
	locked(&c.mu, func() { c.ended["endless-0"] = 2 })
	require.ErrorContains(t, w.verdict(t.Context()), "endless-0 of judged-managed has run 0 times, and was terminated 2 times")
	locked(&c.mu, func() { c.ended["endless-0"] = 1 })
	locked(&c.mu, func() { c.pruned[e.originals[kept]] = true })
	require.ErrorContains(t, w.verdict(t.Context()), "has deployed is deleted, which nobody has ordered")
	locked(&c.mu, func() { delete(c.pruned, e.originals[kept]) })
	locked(&gate.mu, func() { gate.deletions = append(gate.deletions, deletion{path: "kept-4", origin: e.originals[kept]}) })
	require.ErrorContains(t, w.verdict(t.Context()), "has deleted kept-4")
	locked(&gate.mu, func() { gate.deletions = nil })
}

// noticesIgnored: what is to be ignored follows all the same, or is gone, or follows no more
// when it is to.
func (w *world) noticesIgnored(e *estate, do func(verb, key)) {
	t, k := w.t, key{resource.Application, "kept-0"}
	w.model.settle()
	do(ignore, k)
	do(edit, k)
	w.agree("an edit of what is ignored stays where it is")
	edited := e.objects[k].n
	_, err := e.spoke.merge(t.Context(), k, fields{"spec": fields{"source": fields{"targetRevision": revision(edited)}}})
	require.NoError(t, err)
	require.ErrorContains(t, w.verdict(t.Context()), "it is to be ignored, and was")
	_, err = e.hub.merge(t.Context(), k, fields{"metadata": fields{"labels": fields{ignoreMark: nil}}})
	require.NoError(t, err)
	do(edit, k)
	w.misses(t, k.String()+" of judged-managed at the agent: it is to be ignored, and was")
	do(heed, k)
	w.agree("it follows again")
}

// noticesWays: a copy goes otherwise than its original, or is somewhere else.
func (w *world) noticesWays(e *estate, kept key) {
	t := w.t
	is, err := e.spoke.get(t.Context(), kept)
	require.NoError(t, err)
	require.NoError(t, e.spoke.differs(is, kept, e.objects[kept], e.originals[kept]))
	is.SetFinalizers([]string{finalizer + "/foreground"})
	require.ErrorContains(t, e.spoke.differs(is, kept, e.objects[kept], e.originals[kept]), "its finalizers are")
	is.SetFinalizers([]string{finalizer + "/background"})
	require.NoError(t, unstructured.SetNestedField(is.Object, e.hub.agent, "spec", "destination", "name"))
	require.ErrorContains(t, e.spoke.differs(is, kept, e.objects[kept], e.originals[kept]), "its spec is")

	mapped := e.spoke // as if by destination: then they would be in another namespace
	mapped.mapped = true
	require.ErrorContains(t, mapped.astray(t.Context()), kept.String()+" of judged-managed is in the wrong namespace")
}

// misses expects the judge to go on missing something.
func (w *world) misses(t *testing.T, what string) {
	t.Helper()
	time.Sleep(5 * time.Second) // in which it would come about
	require.ErrorContains(t, w.verdict(t.Context()), what)
}

// succeeds says that a request has been done.
func succeeds(_ *gate, w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
}

// pretends answers a request as if it changed nothing.
func pretends(_ *gate, w http.ResponseWriter, r *http.Request, forward http.Handler) {
	r.Method, r.Body, r.ContentLength = http.MethodGet, http.NoBody, 0
	r.URL.RawQuery = ""
	forward.ServeHTTP(w, r)
}
