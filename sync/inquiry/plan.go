package inquiry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A Plan is what an agent would change by now on its cluster.
type Plan struct {
	Observing bool     `json:"observing"` // it makes none of these changes, but to what is adopted
	Whole     bool     `json:"whole"`     // it knows the whole of the principal's table
	Adopted   []string `json:"adopted"`   // what it writes while it observes: kind/namespace/name, as on the link
	Steps     []Step   `json:"steps"`
}

// A Step is a change to one object.
type Step struct {
	Kind      string   `json:"kind"`
	Namespace string   `json:"namespace,omitempty"` // as on the link
	Name      string   `json:"name"`
	Action    Action   `json:"action"`
	Notes     []string `json:"notes,omitempty"` // what comes of it besides
	Adopted   bool     `json:"adopted"`         // it is about to be made
	Diff      string   `json:"diff"`            // unified, of what the agent would write; nothing that is secret is in it
}

// An Action is what a Step does to its object.
type Action string

// The actions.
const (
	Create   Action = "create"
	Update   Action = "change"
	TakeOver Action = "take over" // it is there already, and nobody's copy, or another hub's
	Delete   Action = "delete"
	Recreate Action = "recreate" // it is deleted, and made anew
)

// Object returns kind/namespace/name, or kind/name of an object without a namespace.
func (s Step) Object() string {
	if s.Namespace == "" {
		return s.Kind + "/" + s.Name
	}
	return s.Kind + "/" + s.Namespace + "/" + s.Name
}

// An Adoption says which objects an agent that observes is to write from now on, or no more.
type Adoption struct {
	Keys []resource.Key
	All  bool // all of its Plan, or all that is adopted; no Keys are given
	Undo bool // they are not written any more, and lose the marks of copies
}

// Adopted says what became of an Adoption.
type Adopted struct {
	Done    []string `json:"done"`    // as in Plan.Adopted
	Pending []string `json:"pending"` // those of them that are not what they should be yet
}

// Errors of an Adoption.
var (
	ErrNotObserving = errors.New("the agent does not observe: it writes all that there is to be written")
	ErrNoObject     = errors.New("the control plane has no such object for this agent")
	ErrNotAdopted   = errors.New("it is not adopted")
)

// An adoption is an Adoption as it travels.
type adoption struct {
	Keys []key `json:"keys"`
	All  bool  `json:"all"`
	Undo bool  `json:"undo"`
}

// plan answers with the Plan without its Steps, and then a Step a line.
func (s *server) plan(w http.ResponseWriter, r *http.Request) {
	p, err := s.cfg.Plan(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	lines, steps := json.NewEncoder(w), p.Steps
	lines.SetEscapeHTML(false)
	p.Steps = nil
	if lines.Encode(p) != nil {
		return // the caller has gone
	}
	for _, step := range steps {
		if lines.Encode(step) != nil {
			return
		}
	}
}

func (s *server) adopt(r *http.Request) (any, error) {
	var a adoption
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
		return nil, fmt.Errorf("inquiry: read question: %w", err)
	}
	want := Adoption{All: a.All, Undo: a.Undo}
	for _, k := range a.Keys {
		want.Keys = append(want.Keys, resource.Key{Kind: resource.Kind(k.Kind), Namespace: k.Namespace, Name: k.Name})
	}
	return s.cfg.Adopt(r.Context(), want)
}

// Plan returns what the agent would change.
func (c *Client) Plan(ctx context.Context) (p Plan, err error) {
	kept, begun := 0, false
	err = c.lines(ctx, http.MethodGet, "/v1/plan", nil, func(line []byte) error {
		if kept += len(line); kept > c.limits.kept || len(p.Steps) == c.limits.objects {
			return errors.New("it has a longer plan than can be")
		}
		if !begun {
			begun = true
			err := json.Unmarshal(line, &p)
			p.Steps = []Step{}
			return err
		}
		var s Step
		if err := json.Unmarshal(line, &s); err != nil {
			return err
		}
		if err := s.check(); err != nil {
			return err
		}
		p.Steps = append(p.Steps, s)
		return nil
	})
	if err == nil && !begun {
		err = errors.New("inquiry: the agent has answered nothing")
	}
	for i := range p.Adopted {
		p.Adopted[i] = short(p.Adopted[i])
	}
	return p, err
}

// check says what is wrong with a Step of an agent's. It trusts nobody.
func (s Step) check() error {
	if !slices.Contains(resource.Kinds(), resource.Kind(s.Kind)) {
		return fmt.Errorf("kind %.60q is none that is kept in step", s.Kind)
	}
	texts := append([]string{s.Namespace, s.Name, string(s.Action)}, s.Notes...)
	for _, text := range texts {
		if len(text) > maxName || !utf8.ValidString(text) {
			return fmt.Errorf("object %.60q: a text that is none", s.Name)
		}
	}
	if s.Name == "" || !utf8.ValidString(s.Diff) {
		return errors.New("a step without a name, or with a diff that is none")
	}
	return nil
}

// Adopt has the agent do what a says.
func (c *Client) Adopt(ctx context.Context, a Adoption) (out Adopted, err error) {
	question := adoption{All: a.All, Undo: a.Undo, Keys: []key{}}
	for _, k := range a.Keys {
		question.Keys = append(question.Keys, key{string(k.Kind), k.Namespace, k.Name})
	}
	text, err := json.Marshal(question)
	if err != nil {
		return out, fmt.Errorf("inquiry: ask the agent: %w", err)
	}
	err = c.one(ctx, http.MethodPost, "/v1/adopt", text, &out)
	for _, names := range [][]string{out.Done, out.Pending} {
		for i := range names {
			names[i] = strings.ToValidUTF8(short(names[i]), "\uFFFD")
		}
	}
	return out, err
}
