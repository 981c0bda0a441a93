package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argocd-fabric/argocd-agent/principal/admin"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/natslink/monitor"
)

// differs compares what an agent and the hub have with the model, as both API servers show it.
func (e *estate) differs(ctx context.Context) error {
	var errs error
	e.mu.Lock()
	originals := maps.Clone(e.originals)
	e.mu.Unlock()
	for _, kind := range kinds(e.mode) {
		hub, err := e.hub.list(ctx, kind)
		if err != nil {
			return err
		}
		spoke, err := e.spoke.list(ctx, kind)
		if err != nil {
			return err
		}
		owned, copied := hub, spoke
		if e.mode == resource.Autonomous {
			owned, copied = spoke, hub
		}
		for k, o := range e.objects {
			if k.kind != kind {
				continue
			}
			errs = errors.Join(errs, e.owner().differs(owned[k], k, o, originals[k]), e.other().differs(copied[k], k, o, originals[k]))
			if kind == resource.Application && hub[k] != nil && spoke[k] != nil && o.ignored == nowhere {
				errs = errors.Join(errs, unequal(hub[k], spoke[k]))
			}
		}
		for s, all := range map[*site]map[key]*unstructured.Unstructured{&e.hub: hub, &e.spoke: spoke} {
			for k := range all {
				if e.objects[k] == nil {
					errs = errors.Join(errs, fmt.Errorf("%s of %s is at the %s, and should not be", k, e.name, s.side))
				}
			}
		}
	}
	return errs
}

// differs says in what an object is not what the model says of it.
func (s site) differs(u *unstructured.Unstructured, k key, o *object, original string) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%s of %s at the %s: %s", k, s.agent, s.side, fmt.Sprintf(format, args...))
	}
	if u == nil {
		return wrong("it is not there")
	}
	uid := u.GetAnnotations()[sourceMark]
	if s.owner {
		uid = string(u.GetUID())
	}
	field, want := s.spec(k, o.n)
	switch is := u.Object[field]; {
	case u.GetDeletionTimestamp() != nil:
		return wrong("it is being deleted")
	case uid != original:
		return wrong("it is that of %s, and not of %s", uid, original)
	case o.ignored != nowhere && !s.owner:
		if is, _ := at(u, "spec", "source", "targetRevision").(string); !slices.Contains(o.seen, is) {
			return wrong("it is to be ignored, and was %v, and is %v", o.seen, is)
		}
		return nil
	case resource.Canonical(is) != resource.Canonical(want):
		return wrong("its %s is %s, and not %s", field, resource.Canonical(is), resource.Canonical(want))
	case !maps.Equal(marks(u.GetLabels()), o.labels):
		return wrong("its labels are %v, and not %v", u.GetLabels(), o.labels)
	case !maps.Equal(marks(u.GetAnnotations()), o.annotations):
		return wrong("its annotations are %v, and not %v", u.GetAnnotations(), o.annotations)
	case cascade(u) != o.finalizer:
		return wrong("its finalizers are %q", u.GetFinalizers())
	case u.Object["operation"] != nil:
		return wrong("an operation is asked for: %v", u.Object["operation"])
	case at(u, "status", "operationState", "phase") == "Running", at(u, "status", "operationState", "phase") == "Terminating":
		return wrong("an operation is said to be under way: %v", at(u, "status", "operationState"))
	case u.GetAnnotations()[refreshMark] != "":
		return wrong("a refresh is asked for")
	}
	return nil
}

// marks returns those that people have set.
func marks(all map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range all {
		if strings.HasPrefix(name, markPrefix) {
			out[name] = value
		}
	}
	return out
}

// unequal compares the statuses of the two sides.
func unequal(hub, spoke *unstructured.Unstructured) error {
	a, b := told(hub), told(spoke)
	if a != b {
		return fmt.Errorf("the status of %s is %s on the hub, and %s on the spoke", hub.GetName(), a, b)
	}
	if want, is := at(spoke, "spec", "source", "targetRevision"), at(spoke, "status", "sync", "revision"); want != is {
		return fmt.Errorf("%s is to be at %v, and is at %v", spoke.GetName(), want, is)
	}
	return nil
}

// told returns a status without what we say there ourselves.
func told(u *unstructured.Unstructured) string {
	status, _, _ := unstructured.NestedMap(u.Object, "status")
	conditions, _ := status["conditions"].([]any)
	conditions = slices.DeleteFunc(conditions, func(c any) bool {
		m, _ := c.(fields)
		return m["type"] == "AgentError" || m["type"] == "AgentPending" || m["type"] == "DeletionHeld"
	})
	delete(status, "conditions")
	if len(conditions) > 0 {
		status["conditions"] = conditions
	}
	return resource.Canonical(status)
}

// astray checks that where Applications are mapped by their destinations none is in Argo CD's
// own namespace.
func (s site) astray(ctx context.Context) (errs error) {
	if !s.mapped {
		return nil
	}
	s.apps = s.home
	all, err := s.list(ctx, resource.Application)
	for k := range all {
		errs = errors.Join(errs, fmt.Errorf("%s of %s is in the wrong namespace", k, s.agent))
	}
	return errors.Join(err, errs)
}

// done checks what was asked to be done once, and terminated.
func (e *estate) done(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs error
	for asked := range e.asked {
		ran, ended, unending := c.runs[asked], c.ended[asked], strings.HasPrefix(asked, endless)
		switch {
		case unending && !e.ended[asked]:
			errs = errors.Join(errs, fmt.Errorf("%s of %s is over, and nobody has terminated it", asked, e.name))
		case e.ended[asked] && ran+ended > 1, unending && ran > 0, !e.ended[asked] && (ran != 1 || ended != 0):
			errs = errors.Join(errs, fmt.Errorf("%s of %s has run %d times, and was terminated %d times", asked, e.name, ran, ended))
		}
	}
	for _, all := range []map[string]int{c.runs, c.ended} {
		for ran := range all {
			if !e.asked[ran] {
				errs = errors.Join(errs, fmt.Errorf("nobody has asked %s for %s", e.name, ran))
			}
		}
	}
	for name := range e.refresh {
		if c.renewals[name] == 0 {
			errs = errors.Join(errs, fmt.Errorf("%s of %s was never refreshed", name, e.name))
		}
	}
	for uid := range c.pruned {
		if cascade := e.ordered[uid]; !cascade && !e.lost[uid] {
			errs = errors.Join(errs, fmt.Errorf("what the Application of UID %s of %s has deployed is deleted, which nobody has ordered", uid, e.name))
		}
	}
	return errs
}

// ordered checks that the programs have deleted nothing but copies of what was to go.
func (w *world) ordered(context.Context) error {
	all := map[string]bool{}
	for _, e := range w.estates {
		e.mu.Lock()
		for uid := range e.ordered {
			all[uid] = true
		}
		e.mu.Unlock()
	}
	var errs error
	for p, g := range w.gates {
		for _, d := range g.noted() {
			if d.origin == "" || !all[d.origin] {
				errs = errors.Join(errs, fmt.Errorf("%s has deleted %s, of UID %s and the copy of %q, which nobody has ordered", p.Name(), d.path, d.uid, d.origin))
			}
		}
	}
	return errs
}

// untouched checks that the bystanders are what they were.
func (w *world) untouched(ctx context.Context) error {
	now, err := w.seen(ctx)
	if err == nil && (len(now) == 0 || !maps.Equal(now, w.bystanders)) {
		err = fmt.Errorf("bystanders were %v, and are %v", w.bystanders, now)
	}
	return err
}

// inStep checks what the programs say of themselves.
func (w *world) inStep(ctx context.Context) error {
	var errs error
	for _, p := range w.programs() {
		errs = errors.Join(errs, p.ready(ctx))
	}
	for _, e := range w.estates {
		a, err := w.ask().Agent(ctx, e.name)
		switch {
		case err != nil:
			return errors.Join(errs, err)
		case a.Error != "", a.Spoke == nil, !a.Connected, len(a.Held) > 0:
			errs = errors.Join(errs, fmt.Errorf("the principal says: %+v", a))
			continue
		}
		for _, s := range []admin.Side{a.Hub, *a.Spoke} {
			if !s.InStep || s.Retrying+s.DeadLetters+s.Waiting > 0 || s.Error != "" {
				errs = errors.Join(errs, fmt.Errorf("one side of %s says: %+v", e.name, s))
			}
		}
	}
	return errs
}

// verdict returns all that is not yet as it should be.
func (w *world) verdict(ctx context.Context) error {
	errs := errors.Join(w.ordered(ctx), w.untouched(ctx))
	for _, e := range w.estates {
		errs = errors.Join(errs, e.finish(ctx), e.differs(ctx), e.done(ctx), e.spoke.astray(ctx))
	}
	return errs
}

// agree waits until all is as the model says, and the programs say so.
func (w *world) agree(what string) {
	w.t.Helper()
	w.within(patience, what, w.verdict, w.inStep)
}

// silence is for how long nothing may move after a storm.
const silence = 5 * time.Second

// judge demands that all is as it should be and stays so, that the programs have compared it
// themselves, and that they are no larger than they were when they were asked first.
func (w *world) judge(before map[*program]size) {
	w.t.Helper()
	w.agree("all is as it should be")
	for _, e := range w.estates {
		verdict, err := w.ask().Verify(w.t.Context(), e.name, 10*time.Second)
		require.NoError(w.t, err)
		require.Empty(w.t, verdict.Error)
		require.Empty(w.t, verdict.Differences)
		require.GreaterOrEqual(w.t, verdict.Objects, len(e.keys(func(_ key, o *object) bool { return o.ignored == nowhere })))
	}
	var last map[string]string
	since := time.Now()
	w.within(patience, "nothing moves", func(ctx context.Context) error {
		now, err := w.picture(ctx)
		if err != nil || !maps.Equal(now, last) {
			last, since = now, time.Now()
			return errors.Join(err, errors.New("things still change"))
		}
		if time.Since(since) < silence {
			return errors.New("it was not silent for long")
		}
		return nil
	})
	require.NoError(w.t, w.verdict(w.t.Context()))
	for _, p := range w.programs() {
		cries, err := p.cries()
		require.NoError(w.t, err)
		require.Empty(w.t, cries, p.Name())
		w.within(patience, p.Name()+" is as small as it was", func(ctx context.Context) error { return w.grown(ctx, p, before[p]) })
	}
}

// summary says how much has happened, which must be something.
func (w *world) summary() {
	w.t.Helper()
	var deleted, ran, ended, pruned, starts int
	for _, g := range w.gates {
		deleted += len(g.noted())
	}
	for _, p := range w.programs() {
		starts += p.started()
	}
	for _, e := range w.estates {
		c := e.controller
		c.mu.Lock()
		for _, n := range c.runs {
			ran += n
		}
		for _, n := range c.ended {
			ended += n
		}
		pruned += len(c.pruned)
		c.mu.Unlock()
	}
	w.t.Logf("so far programs were started %d times and have deleted %d copies, %d syncs have run and %d were terminated, and %d Applications went in cascade", starts, deleted, ran, ended, pruned)
	for _, n := range []int{starts - len(w.programs()), deleted, ran, ended, pruned} {
		require.Positive(w.t, n, "a storm in which nothing happens proves nothing")
	}
}

// picture returns the version of each object on both sides, and how much was said.
func (w *world) picture(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	err := w.each(ctx, func(s site, u *unstructured.Unstructured) {
		out[fmt.Sprint(s.side, u.GetKind(), u.GetNamespace(), u.GetName())] = string(u.GetUID()) + " " + u.GetResourceVersion()
	})
	if err != nil {
		return nil, err
	}
	for i, p := range w.programs() {
		if w.carrier.name == "grpc" || i > 0 && !w.carrier.servers {
			continue
		}
		said, err := monitor.Sequences(ctx, p.monitor)
		if err != nil {
			return nil, err
		}
		for stream, n := range said {
			out[p.Name()+stream] = fmt.Sprint(n)
		}
	}
	if w.carrier.name == "grpc" {
		for _, e := range w.estates {
			out[e.name] = fmt.Sprint(e.line.Long())
		}
	}
	return out, nil
}

// sizes returns how large the programs are.
func (w *world) sizes() map[*program]size {
	out := map[*program]size{}
	for _, p := range w.programs() {
		s, err := p.size(w.t.Context())
		require.NoError(w.t, err)
		out[p] = s
	}
	return out
}

// grown checks that a program is not much larger than it was.
func (w *world) grown(ctx context.Context, p *program, before size) error {
	now, err := p.size(ctx)
	if err == nil && (now.goroutines > before.goroutines*1.25+20 || now.bytes > before.bytes*2+64<<20) {
		err = fmt.Errorf("%s has grown from %+v to %+v", p.Name(), before, now)
	}
	return err
}
