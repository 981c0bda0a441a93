package agent

import (
	"context"
	"errors"
	"slices"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// errEarly says that nothing can be known yet.
var errEarly = errors.New("agent: it has just been started, and does not know what there is")

// plan returns what this agent would change on its cluster.
func (a *Agent) plan(ctx context.Context) (inquiry.Plan, error) {
	p := inquiry.Plan{Observing: a.gate != nil, Adopted: []string{}, Steps: []inquiry.Step{}}
	if !a.listed.Load() {
		return p, errEarly
	}
	all, whole, err := a.session.Load().Plan(ctx)
	if err != nil {
		return p, err
	}
	p.Whole = whole
	if a.gate != nil {
		p.Adopted = append(p.Adopted, a.gate.Adopted()...)
	}
	for _, c := range all {
		s := step(c)
		s.Adopted = !p.Observing || slices.Contains(p.Adopted, c.Key.String())
		if _, why := a.place().In(c.Key); why != "" {
			s.Notes = append(s.Notes, "it would be refused: "+why)
		}
		p.Steps = append(p.Steps, s)
	}
	return p, nil
}

// step says for people what a change is.
func step(c engine.Change) inquiry.Step {
	last, before := c.Becomes[len(c.Becomes)-1], c.Is // before: what is there when it is removed
	gone := slices.Index(c.Becomes, nil)
	if gone > 0 {
		before = c.Becomes[gone-1]
	}
	s := inquiry.Step{
		Kind: string(c.Key.Kind), Namespace: c.Key.Namespace, Name: c.Key.Name,
		Action: action(c.Is, last, gone >= 0), Diff: difference(c.Key, c.Is, last),
	}
	if gone >= 0 && c.Key.Kind == resource.Application {
		s.Notes = append(s.Notes, deployed(*before))
	}
	if last != nil {
		s.Notes = append(s.Notes, requests(c.Is, *last)...)
	}
	return s
}

func action(is, becomes *resource.Object, gone bool) inquiry.Action {
	switch {
	case becomes == nil:
		return inquiry.Delete
	case gone:
		return inquiry.Recreate
	case is == nil:
		return inquiry.Create
	case is.Origin != becomes.Origin:
		return inquiry.TakeOver
	}
	return inquiry.Update
}

// deployed says what becomes of what an Application has deployed when it is removed as it is.
func deployed(o resource.Object) string {
	if len(resource.ParseMetadata(o.Parts[resource.Meta]).Finalizers) > 0 {
		return "with all that it has deployed"
	}
	return "what it has deployed stays"
}

// requests says what Argo CD is asked to do.
func requests(is *resource.Object, becomes resource.Object) (notes []string) {
	if is == nil {
		is = &resource.Object{}
	}
	for _, r := range []struct {
		of   resource.Part
		note string
	}{
		{resource.Operation, "it runs an operation"},
		{resource.OpState, "an operation is ended"},
		{resource.RefreshMark, "it is refreshed"},
	} {
		if text := becomes.Parts[r.of]; text != "" && text != is.Parts[r.of] {
			notes = append(notes, r.note)
		}
	}
	return notes
}
