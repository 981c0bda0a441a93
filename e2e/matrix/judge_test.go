package matrix

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/principal/admin"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/verify"
)

// silence is for how long nothing may move after a story.
const silence = 10 * time.Second

// agree waits until the two sides agree, and nothing is left to do.
func (w *world) agree() {
	w.t.Helper()
	w.sees("both sides agree", w.differs)
}

// differs checks that the two sides agree, and that nothing is left to do for the controller.
func (w *world) differs(ctx context.Context) error {
	hub, err := w.hub.cluster.objects(ctx)
	if err != nil {
		return err
	}
	spoke, err := w.spoke.cluster.objects(ctx)
	if err != nil {
		return err
	}
	var errs error
	for _, d := range verify.Compare(verify.Options{Mode: w.mode, Agent: w.name}, w.hub.linked(hub), w.spoke.linked(spoke)) {
		errs = errors.Join(errs, fmt.Errorf("%s", d))
	}
	for k, o := range spoke {
		switch {
		case o.Deleting:
			errs = errors.Join(errs, fmt.Errorf("%s is being deleted", k))
		case k.Kind == resource.Application:
			if err := w.controller.behind(o); err != nil {
				errs = errors.Join(errs, fmt.Errorf("%s: %w", k, err))
			}
		}
	}
	return errs
}

// linked returns the objects of a side as the two are compared: keyed as on the link, and the
// originals as their copies are to be.
func (s *side) linked(all objects) (out []resource.Object) {
	for k, o := range all {
		switch {
		case k.Kind == resource.Application && k.Namespace == s.apps:
			o.Key.Namespace = ""
		case k.Kind == resource.Project && k.Namespace == s.home && s.names(k) != "":
			o.Key = resource.Key{Kind: resource.Project, Name: s.names(k)}
		default:
			continue
		}
		if s == s.w.owner() {
			spec, err := s.w.copied(k.Kind, o.Parts[resource.Spec])
			require.NoError(s.w.t, err)
			o.Parts[resource.Spec] = spec
		}
		out = append(out, o)
	}
	return out
}

// names returns what the owner calls a project of this side, "" if it is none of the agent's.
func (s *side) names(k resource.Key) string {
	if prefix := len(s.project("").Name); len(k.Name) > prefix && k.Name[:prefix] == s.project("").Name {
		return k.Name[prefix:]
	}
	return ""
}

// whole demands that both sides agree, that both programs know it and have nothing to complain
// of, and that then nothing is written or said for a time.
func (w *world) whole() {
	w.t.Helper()
	w.agree()
	w.sees("both programs say that they are in step", w.inStep)
	verdict, err := w.ask().Verify(w.t.Context(), w.name, 5*time.Second)
	require.NoError(w.t, err)
	require.Empty(w.t, verdict.Error)
	require.Empty(w.t, verdict.Differences)

	var last map[string]string
	w.sees("both sides come to rest", func(ctx context.Context) error {
		now, err := w.picture(ctx)
		if err == nil && !maps.Equal(now, last) {
			err = errors.New("things still change")
			time.Sleep(2 * time.Second)
		}
		last = now
		return err
	})
	time.Sleep(silence)
	now, err := w.picture(w.t.Context())
	require.NoError(w.t, err)
	require.Equal(w.t, last, now, "nothing moves for %v", silence)
	require.NoError(w.t, w.differs(w.t.Context()))
}

// inStep checks what the two programs say of themselves.
func (w *world) inStep(ctx context.Context) error {
	a, err := w.ask().Agent(ctx, w.name)
	switch {
	case err != nil:
		return err
	case a.Error != "", a.Spoke == nil, !a.Connected, len(a.Held) > 0:
		return fmt.Errorf("the principal says: %+v", a)
	}
	for _, s := range []admin.Side{a.Hub, *a.Spoke} {
		if !s.InStep || s.Retrying+s.DeadLetters > 0 || s.Error != "" {
			return fmt.Errorf("one side says: %+v", s)
		}
	}
	return nil
}

// picture returns the version of each object on both sides, what else their clusters count,
// and how many messages each log and copy has taken.
func (w *world) picture(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	for _, s := range []*side{w.hub, w.spoke} {
		all, err := s.cluster.objects(ctx)
		if err != nil {
			return nil, err
		}
		for k, o := range all {
			out[fmt.Sprintf("%s: %s", s.Side, k)] = o.UID + " " + o.Version
		}
		if out[s.Side.String()], err = s.cluster.writes(ctx); err != nil {
			return nil, err
		}
		taken, err := w.carrier.taken(ctx, w, s)
		if err != nil {
			return nil, err
		}
		if len(taken) == 0 {
			return nil, fmt.Errorf("the %s has no log", s.Side)
		}
		for name, n := range taken {
			out[fmt.Sprintf("%s: %s", s.Side, name)] = fmt.Sprint(n)
		}
	}
	return out, nil
}
