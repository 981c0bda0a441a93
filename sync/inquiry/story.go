package inquiry

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/journal"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A Story is what one side knows of one object: how it stands there, and what has become of its
// last changes.
type Story struct {
	Now time.Time `json:"now"` // by the clock of that side, when it was told
	// Since is when what is remembered begins: with the process.
	Since time.Time    `json:"since"`
	Mode  string       `json:"mode,omitempty"` // as Standing has it
	State State        `json:"state"`
	Page  journal.Page `json:"page"`
}

// A State says how an object stands on one side, see engine.Account.
type State struct {
	Known      bool      `json:"known"`
	Here       bool      `json:"here"`
	Deleting   bool      `json:"deleting,omitempty"`
	Excluded   bool      `json:"excluded,omitempty"`
	Said       string    `json:"said,omitempty"` // the digest of its row in that side's table, in brief
	Lost       bool      `json:"lost,omitempty"`
	Told       string    `json:"told,omitempty"` // that of the other side's row
	ToldPhase  string    `json:"toldPhase,omitempty"`
	Settled    bool      `json:"settled"` // the object is what it should be
	Writing    bool      `json:"writing,omitempty"`
	Tries      int       `json:"tries,omitempty"`
	Retry      time.Time `json:"retry,omitzero"`
	Failure    string    `json:"failure,omitempty"`
	Taken      string    `json:"taken,omitempty"`
	Refused    string    `json:"refused,omitempty"`
	Unreadable string    `json:"unreadable,omitempty"`
	Unfit      string    `json:"unfit,omitempty"`
	Withheld   bool      `json:"withheld,omitempty"`
	Held       bool      `json:"held,omitempty"`
	Whole      bool      `json:"whole"` // that side has the whole of the other's table
	Awaits     []string  `json:"awaits,omitempty"`
	Operation  bool      `json:"operation,omitempty"` // one is to be run on it, or runs
	Asked      bool      `json:"asked,omitempty"`     // the other side asks for one that was not taken yet
	Fault      string    `json:"fault,omitempty"`
	Pending    string    `json:"pending,omitempty"`
	Reconciled string    `json:"reconciled,omitempty"` // as its status says
	Complaint  string    `json:"complaint,omitempty"`  // of Argo CD, likewise
}

// StateOf returns what is told of an Account.
func StateOf(a engine.Account) State {
	s := State{
		Known: a.Known, Here: a.Here, Deleting: a.Deleting, Excluded: a.Excluded, Said: brief(a.Said), Lost: a.Lost, Told: brief(a.Told),
		Settled: a.Settled, Writing: a.Writing, Tries: a.Tries, Retry: a.Retry, Failure: short(a.Failure), Taken: short(a.Taken), Refused: short(a.Refused),
		Unreadable: short(a.Unreadable), Unfit: short(a.Unfit), Withheld: a.Withheld, Held: a.Held, Whole: a.Whole, Awaits: a.Awaits,
		Operation: a.Operation != "", Asked: a.Asked, Fault: short(a.Fault), Pending: short(a.Pending),
	}
	if a.Told != "" {
		s.ToldPhase = a.ToldPhase.String()
	}
	s.Reconciled, _ = resource.Reconciled(a.Status)
	s.Complaint = short(resource.Complaint(a.Status))
	return s
}

// brief returns a digest as a journal has it.
func brief(d resource.Digest) string { return string(d[:min(len(d), journal.Digits)]) }

const storyPath = "/v1/story"

// story answers what is known of the object that the question names.
func (s *server) story(r *http.Request) (any, error) {
	q := r.URL.Query()
	k := resource.Key{Kind: resource.Kind(q.Get("kind")), Namespace: q.Get("namespace"), Name: q.Get("name")}
	return s.cfg.Story(r.Context(), k)
}

// ErrNoStory says that an agent's program is too old to tell of single objects.
var ErrNoStory = fmt.Errorf("the agent's program is too old to tell what becomes of an object")

// Story returns what the agent knows of an object, and how long it has taken to answer.
func (c *Client) Story(ctx context.Context, k resource.Key) (out Story, took time.Duration, err error) {
	q := url.Values{"kind": {string(k.Kind)}, "namespace": {k.Namespace}, "name": {k.Name}}
	began := time.Now()
	err = c.lines(ctx, http.MethodGet, storyPath+"?"+q.Encode(), nil, func(line []byte) error {
		took = time.Since(began)
		return json.Unmarshal(line, &out)
	})
	if err == nil {
		err = out.tidy()
	}
	return out, took, err
}

// tidy makes what an agent says no longer than what this program would.
func (s *Story) tidy() error {
	if len(s.Page.Said) > journal.Kept || len(s.Page.Heard) > journal.Kept || len(s.State.Awaits) > maxAwaits {
		return fmt.Errorf("inquiry: the agent's answer: it remembers more than can be")
	}
	st := &s.State
	for _, text := range []*string{
		&st.Said, &st.Told, &st.ToldPhase, &st.Failure, &st.Taken, &st.Refused, &st.Unreadable, &st.Unfit, &st.Fault, &st.Pending, &st.Reconciled, &st.Complaint,
	} {
		*text = short(*text)
	}
	for i := range st.Awaits {
		st.Awaits[i] = short(st.Awaits[i])
	}
	for i := range s.Page.Said {
		m := &s.Page.Said[i]
		m.Of, m.Failed = tidyOf(m.Of), short(m.Failed)
	}
	for i := range s.Page.Heard {
		m := &s.Page.Heard[i]
		m.Of, m.Why, m.End = tidyOf(m.Of), short(m.Why), journal.End(short(string(m.End)))
	}
	return nil
}

// maxAwaits is how many objects are named at most for which one waits.
const maxAwaits = 10

func tidyOf(o journal.Of) journal.Of {
	return journal.Of{Digest: short(o.Digest), Phase: short(o.Phase), Reconciled: short(o.Reconciled), Trace: short(o.Trace)}
}
