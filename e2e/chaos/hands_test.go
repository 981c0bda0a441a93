package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// An estate is what one agent and the hub have in common, with what became of the acts that
// were done to it.
type estate struct {
	*holdings
	name       string
	hub, spoke site
	controller *controller
	line       *line

	mu        sync.Mutex
	originals map[key]string  // the UIDs of those that are there
	ordered   map[string]bool // the UIDs of originals whose deletion was ordered: whether in cascade
	lost      map[string]bool // and of those of which somebody has deleted a copy
	asked     map[string]bool // syncs
	ended     map[string]bool // and of those that somebody has terminated
	refresh   map[string]bool // Applications, by name
}

func (e *estate) owner() site {
	if e.mode == resource.Autonomous {
		return e.spoke
	}
	return e.hub
}

func (e *estate) other() site {
	if e.mode == resource.Autonomous {
		return e.hub
	}
	return e.spoke
}

// do does an act. What people do on the owner's side must succeed; others take what is there.
func (e *estate) do(ctx context.Context, a act) error {
	err := doing[a.verb](e, ctx, a)
	if err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	return nil
}

// doing says how each verb is done.
var doing = map[verb]func(*estate, context.Context, act) error{
	create: (*estate).create,
	edit: func(e *estate, ctx context.Context, a act) error {
		field, value := e.owner().spec(a.key, a.n)
		return there(e.owner().merge(ctx, a.key, fields{field: value}))
	},
	label: func(e *estate, ctx context.Context, a act) error {
		return there(e.owner().merge(ctx, a.key, fields{"metadata": fields{"labels": a.marks()}}))
	},
	annotate: func(e *estate, ctx context.Context, a act) error {
		return there(e.owner().merge(ctx, a.key, fields{"metadata": fields{"annotations": a.marks()}}))
	},
	remove: (*estate).remove,
	renew: func(e *estate, ctx context.Context, a act) error {
		if err := e.remove(ctx, a); err != nil {
			return err
		}
		return e.create(ctx, a)
	},
	syncHub: func(e *estate, ctx context.Context, a act) error {
		return e.ask(ctx, e.hub, a.key, fmt.Sprint("request-", a.n))
	},
	syncSpoke: func(e *estate, ctx context.Context, a act) error {
		return e.ask(ctx, e.spoke, a.key, fmt.Sprint("request-", a.n))
	},
	beginHub: func(e *estate, ctx context.Context, a act) error {
		return e.ask(ctx, e.hub, a.key, fmt.Sprint(endless, a.n))
	},
	beginSpoke: func(e *estate, ctx context.Context, a act) error {
		return e.ask(ctx, e.spoke, a.key, fmt.Sprint(endless, a.n))
	},
	endHub:   func(e *estate, ctx context.Context, a act) error { return e.terminate(ctx, e.hub, a.key, "") },
	endSpoke: func(e *estate, ctx context.Context, a act) error { return e.terminate(ctx, e.spoke, a.key, "") },
	ignore:   func(e *estate, ctx context.Context, a act) error { return e.exclude(ctx, a, "true") },
	heed:     func(e *estate, ctx context.Context, a act) error { return e.exclude(ctx, a, nil) },
	refresh: func(e *estate, ctx context.Context, a act) error {
		u, err := e.hub.merge(ctx, a.key, fields{"metadata": fields{"annotations": fields{refreshMark: "normal"}}})
		if u != nil {
			e.note(func() { e.refresh[u.GetName()] = true })
		}
		return err
	},
	spoil: func(e *estate, ctx context.Context, a act) error {
		_, err := e.other().merge(ctx, a.key, vandalism(a))
		return err
	},
	lose: (*estate).lose,
	report: func(e *estate, ctx context.Context, a act) error {
		_, err := e.spoke.merge(ctx, a.key, fields{"status": fields{"summary": fields{"images": []any{fmt.Sprint("shop:", a.n)}}}})
		return err
	},
}

// endless begins the names of syncs that do not end by themselves.
const endless = "endless-"

// ask asks for a sync. Who finds that somebody else is busy with the Application gives up.
func (e *estate) ask(ctx context.Context, at site, k key, name string) error {
	asked, err := at.ask(ctx, k, name)
	if asked {
		e.note(func() { e.asked[name] = true })
	}
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// terminate ends the sync that runs, if its name begins like this. If none does, or somebody
// else is busy with it, who wanted to gives up.
func (e *estate) terminate(ctx context.Context, at site, k key, prefix string) error {
	name, err := at.terminate(ctx, k, prefix)
	if name != "" {
		e.note(func() { e.ended[name] = true })
	}
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// finish has everybody end the syncs that do not end by themselves, and says which are there.
func (e *estate) finish(ctx context.Context) (errs error) {
	for _, s := range []site{e.hub, e.spoke} {
		all, err := s.list(ctx, resource.Application)
		if err != nil {
			return err
		}
		for k, u := range all {
			if name := requested(u, "operation"); strings.HasPrefix(name, endless) {
				errs = errors.Join(errs, e.terminate(ctx, s, k, endless), fmt.Errorf("%s of %s at the %s still runs", name, e.name, s.side))
			}
		}
	}
	return errs
}

// exclude says of an original or of its copy whether it is to be ignored.
func (e *estate) exclude(ctx context.Context, a act, value any) error {
	s := e.owner()
	if a.where == onCopy {
		s = e.other()
	}
	return there(s.merge(ctx, a.key, fields{"metadata": fields{"labels": fields{ignoreMark: value}}}))
}

func (e *estate) note(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

// there turns the absence of an object into an error.
func there[T any](u *T, err error) error {
	if err == nil && u == nil {
		err = fmt.Errorf("it is not there")
	}
	return err
}

// marks returns the patch of a mark.
func (a act) marks() fields {
	if a.value == "" {
		return fields{a.mark: nil}
	}
	return fields{a.mark: a.value}
}

// create creates an original.
func (e *estate) create(ctx context.Context, a act) error {
	s := e.owner()
	u, err := s.in(a.key.kind).Create(ctx, s.object(a.key, a.n, a.finalizer), metav1.CreateOptions{})
	if err == nil {
		e.note(func() { e.originals[a.key] = string(u.GetUID()) })
	}
	return err
}

// remove orders the deletion of an original.
func (e *estate) remove(ctx context.Context, a act) error {
	s, k := e.owner(), a.key
	u, err := s.get(ctx, k)
	if err := there(u, err); err != nil {
		return err
	}
	uid := u.GetUID()
	e.note(func() { e.ordered[string(uid)], e.originals[k] = cascades(u), "" })
	return s.in(k.kind).Delete(ctx, s.name(k), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &a.policy})
}

// lose deletes a copy, if it is one.
func (e *estate) lose(ctx context.Context, a act) error {
	s, k := e.other(), a.key
	u, err := s.get(ctx, k)
	if err != nil || u == nil || u.GetAnnotations()[sourceMark] == "" {
		return err
	}
	uid := u.GetUID()
	e.note(func() { e.lost[original(u)] = true })
	err = s.in(k.kind).Delete(ctx, s.name(k), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &a.policy})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is another one already, or none
	}
	return err
}

// vandalism is what somebody does to a copy.
func vandalism(a act) fields {
	spoilt := vandal(a.n)
	switch a.key.kind {
	case resource.Secret:
		return fields{"stringData": fields{"password": spoilt}}
	case resource.Project:
		return fields{"spec": fields{"description": spoilt, "sourceRepos": []any{spoilt}}}
	}
	return fields{"spec": fields{"source": fields{"targetRevision": spoilt}, "revisionHistoryLimit": a.n}}
}
