package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// tell says what has become of the changes of an object, for each agent that it concerns.
func (s *Server) tell(r *http.Request) (any, error) {
	q := r.URL.Query()
	want := resource.Key{Kind: resource.Kind(q.Get("kind")), Namespace: q.Get("namespace"), Name: q.Get("name")}
	if !slices.Contains(resource.Kinds(), want.Kind) || want.Name == "" {
		return nil, fmt.Errorf("admin: %w: kind and name of an object are needed", errRequest)
	}
	agents := s.cfg.Principal.Agents()
	if name := q.Get("agent"); name != "" {
		one, err := s.cfg.Principal.Agent(name)
		if err != nil {
			return nil, err
		}
		agents = []principal.AgentStatus{one}
	}
	out := Explanations{Objects: []Explanation{}, Unasked: map[string]string{}}
	var mu sync.Mutex
	each(agents, func(_ int, a principal.AgentStatus) {
		all, err := s.explanations(r.Context(), a, want)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			out.Unasked[a.Name] = err.Error()
		}
		out.Objects = append(out.Objects, all...)
	})
	if len(out.Objects) == 0 && len(out.Unasked) == 0 {
		return nil, fmt.Errorf("admin: %w: no agent has %s: %s", errNoObject, want, whoseIs[want.Kind])
	}
	slices.SortFunc(out.Objects, func(a, b Explanation) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Key, b.Key))
	})
	return out, nil
}

// whoseIs asks what decides whether an object is an agent's.
var whoseIs = map[resource.Kind]string{
	resource.Application: "is it on the control plane, and in a namespace or with a destination of an agent's?",
	resource.Project:     "do its sourceNamespaces match the name of an agent, and one of its destinations, too?",
	resource.Secret:      "is it labelled as a repository, and its data.project one that an agent has?",
	resource.ConfigMap:   "is there a managed agent?",
}

// explanations are those of one agent's objects that are wanted.
func (s *Server) explanations(ctx context.Context, a principal.AgentStatus, want resource.Key) (out []Explanation, err error) {
	place := s.cfg.Principal.Placement(a)
	all, err := s.cfg.Principal.Stories(ctx, a.Name, want.Kind, want.Name)
	for _, story := range all {
		hub, ok := place.In(story.Key)
		if !ok || want.Namespace != "" && want.Namespace != hub.Namespace {
			continue
		}
		out = append(out, s.explanation(ctx, a, hub, story))
	}
	return out, err
}

// explanation says what has become of the changes of one object.
func (s *Server) explanation(ctx context.Context, a principal.AgentStatus, object resource.Key, story principal.Story) Explanation {
	out := Explanation{
		Agent: a.Name, Mode: a.Mode.String(), Object: Object{string(object.Kind), object.Namespace, object.Name}, Key: story.Key.String(),
		Now: time.Now().UTC(), Connected: a.Session.Connected, Since: a.Session.Since, HubSince: story.Began.UTC(),
		Hub: inquiry.StateOf(story.Account),
	}
	f := fact{agent: a, hub: half{state: out.Hub, page: story.Page}, hubOwns: story.Account.Owned}
	if !story.Account.Known { // it has gone, and with it who owned it
		f.hubOwns = a.Mode == resource.Managed
	}
	if spoke, clock, err := s.other(ctx, a, story.Key); err != nil {
		out.Unknown = s.explain(a.Name, err).Error()
	} else {
		out.Clock, out.Spoke, f.spoke = &clock, &spoke.state, &spoke
	}
	down, up := passages(HubSide, &f.hub, f.spoke), passages(SpokeSide, f.spoke, &f.hub)
	if f.hubOwns && object.Kind == resource.Application {
		reconcile(down, &f.hub, f.spoke)
	}
	f.changes = append(down, up...)
	count(f.changes)
	slices.SortStableFunc(f.changes, func(a, b Passage) int { return first(a).Compare(first(b)) })
	letters, _ := s.lettersOf(ctx, a.Name) // those that can be read
	for _, l := range letters {
		if l.Key == out.Key {
			f.letters = append(f.letters, l)
		}
	}
	out.Changes, out.Behind = f.changes, behind(f)
	if out.Changes == nil {
		out.Changes = []Passage{}
	}
	return out
}

// first returns the first time that is known of a change.
func first(p Passage) time.Time {
	for _, s := range []Stage{p.Seen, p.Logged, p.Come, p.Done} {
		if !s.At.IsZero() {
			return s.At
		}
	}
	return time.Time{}
}

// other returns what an agent knows of an object, by the hub's clock, and how the two clocks
// compare: the agent has said its time somewhere between the question and the answer.
func (s *Server) other(ctx context.Context, a principal.AgentStatus, k resource.Key) (half, Clock, error) {
	ctx, stop := context.WithTimeoutCause(ctx, patience, errSlow)
	defer stop()
	began := time.Now()
	story, took, err := s.spoke(a.Name).Story(ctx, k)
	if err != nil {
		return half{}, Clock{}, err
	}
	within := took / 2
	ahead := story.Now.Sub(began.Add(within))
	h := half{story.Mode, story.State, story.Page}
	if ahead.Abs() <= within {
		return h.shift(0), Clock{ahead.Seconds(), within.Seconds()}, nil
	}
	return h.shift(ahead), Clock{ahead.Seconds(), within.Seconds()}, nil
}
