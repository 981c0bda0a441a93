package admin

import (
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/verify"
)

// What is said over HTTP, as JSON:
//
//	GET  /v1/agents                                     Agents
//	GET  /v1/agents/{agent}                             Agent
//	POST /v1/agents/{agent}/approve-deletions           Approval, answered by Approved
//	POST /v1/agents/{agent}/release-deletions           Release, answered by Released
//	GET  /v1/agents/{agent}/verify?settle=10s           Verdict
//	GET  /v1/agents/{agent}/plan                        Plan
//	POST /v1/agents/{agent}/adopt                       Adoption, answered by inquiry.Adopted
//	GET  /v1/explain?kind=…&namespace=…&name=…&agent=…  Explanations
//	GET  /v1/applicants                                 Applicants
//	GET  /v1/letters?agent=…                            Letters
//	GET  /v1/agents/{agent}/letters/{side}/{id}         Letter, with its event
//	POST /v1/agents/{agent}/letters/{side}/{id}/retry   {}, answered by {}
//	POST /v1/agents/{agent}/letters/{side}/{id}/drop    {}, answered by {}
//
// What fails is answered by a Failure, with 404 for what is not there, 409 for what is not
// as the caller takes it to be, 503 for what may be possible later.

// Agents are all registered agents, by name, and the principal that serves them.
type Agents struct {
	Principal Self    `json:"principal"`
	Agents    []Agent `json:"agents"`
}

// A Self is what a principal says of itself.
type Self struct {
	Identity string    `json:"identity"` // the hub's
	Version  string    `json:"version,omitempty"`
	Protocol *Protocol `json:"protocol,omitempty"`
	Expires  time.Time `json:"certificateExpires,omitzero"` // absent if it has no certificate
	Troubles []string  `json:"troubles,omitempty"`          // of the transport's store, which befall all agents
}

// A Protocol says which versions of the protocol a program speaks.
type Protocol struct {
	Oldest int `json:"oldest"`
	Newest int `json:"newest"`
}

// A Flow says how much of what one side has said the other is not known to have, and for how
// long: it is asked for what it has when it is there, and a change counts until it says so.
type Flow struct {
	Known   bool    `json:"known"`      // else nobody can say: the side is away, or its program too old
	Whole   bool    `json:"whole"`      // else there may be more, from before the program began
	Backlog int     `json:"backlog"`    // objects
	Lag     float64 `json:"lagSeconds"` // since the first of them was changed
}

// An Agent says how one agent stands.
type Agent struct {
	Name      string    `json:"name"`
	Mode      string    `json:"mode"`
	State     string    `json:"state"`             // of the principal's session with it: starting, serving, failing or leaving; observing if it serves an agent that says it observes
	Error     string    `json:"error,omitempty"`   // what fails now
	Connected bool      `json:"connected"`         // its process answers
	Since     time.Time `json:"since,omitzero"`    // when Connected changed last; absent if it never did
	Version   string    `json:"version,omitempty"` // of the program that answers, or answered last
	Protocol  *Protocol `json:"protocol,omitempty"`
	// Expires is when the certificate does by which it has proved its name last; absent if it has
	// not since the principal began, or by another way.
	Expires time.Time `json:"certificateExpires,omitzero"`
	Down    Flow      `json:"down"`              // what the hub says, to the agent
	Up      Flow      `json:"up"`                // what the agent says, to the hub
	Process string    `json:"process,omitempty"` // random, another one for every process
	Hub     Side      `json:"hub"`
	Spoke   *Side     `json:"spoke,omitempty"`      // as it says itself; absent if it does not answer
	Held    []Held    `json:"held"`                 // deletions that wait for approval
	HeldOf  string    `json:"heldDigest,omitempty"` // stands for Held
	// Waiting are the hub's objects that are deleted, and wait until the agent has deleted their
	// copies. They are told of one agent only; of all there is their number in Hub.
	Waiting   []Held `json:"waiting,omitempty"`
	WaitingOf string `json:"waitingDigest,omitempty"` // stands for Waiting
}

// A Side says how one side of a link stands.
type Side struct {
	InStep      bool   `json:"inStep"`              // it has the whole of the other's table
	Rows        int    `json:"rows"`                // in its own table
	Copied      int    `json:"copied"`              // rows of the other's table that it knows
	Retrying    int    `json:"retrying"`            // objects whose last write failed, and will be tried again
	DeadLetters int    `json:"deadLetters"`         // what it cannot take in or hand over
	Observing   bool   `json:"observing,omitempty"` // of a spoke: it writes only what is adopted
	Withheld    int    `json:"withheld,omitempty"`  // of one that observes: objects that it would write
	Waiting     int    `json:"waiting,omitempty"`   // of a hub: objects that are deleted, and wait until the agent has deleted their copies
	Error       string `json:"error,omitempty"`     // of a spoke: what fails there, or why it does not say
	Says        Flow   `json:"-"`                   // of a spoke: Up
	misplaced   bool   // of a spoke: it runs in another mode than it is registered in, which Error says
}

// A Held is a copy that is not deleted until that is approved: its original is missing, and
// nobody is known to have deleted it.
type Held struct {
	Side string `json:"side"` // that has the copy: hub or spoke
	Key  string `json:"key"`  // as on the link: kind/namespace/name
	UID  string `json:"uid"`  // of the original
}

// An Approval says what is approved.
type Approval struct {
	HeldOf string `json:"heldDigest"` // of the Agent, as it was shown
}

// Approved are the deletions that were approved.
type Approved struct {
	Held []Held `json:"held"`
}

// A Release says which deletions are not to wait for their agent any more, and why: the log
// is to know.
type Release struct {
	WaitingOf string `json:"waitingDigest"` // of the Agent, as it was shown
	Reason    string `json:"reason"`
}

// Released are the objects that were let go.
type Released struct {
	Objects []Held `json:"objects"`
}

// The sides of a link.
const (
	HubSide   = "hub"
	SpokeSide = "spoke"
)

// A Letter is a dead letter of one side of the link to an agent.
type Letter struct {
	Agent string `json:"agent"`
	Side  string `json:"side"` // hub or spoke
	ledger.Letter
}

// Letters are dead letters of any number of agents, without their events.
type Letters struct {
	Letters []Letter `json:"letters"`
	// Unread says of which agents the spoke's letters could not be read, and why.
	Unread map[string]string `json:"unread,omitempty"`
}

// A Plan is what an agent would change on its cluster, see inquiry.Plan.
type Plan struct {
	Agent string `json:"agent"`
	inquiry.Plan
}

// An Adoption says which objects an agent that observes is to write from now on, or no more,
// see inquiry.Adoption.
type Adoption struct {
	Objects []Object `json:"objects"`
	All     bool     `json:"all"`
	Undo    bool     `json:"undo"`
}

// An Object names an object as the hub does.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// A Failure says why a request was not answered.
type Failure struct {
	Error string `json:"error"`
}

// A Verdict says in what the two sides of the link to an agent differ.
type Verdict struct {
	Agent       string       `json:"agent"`
	Objects     int          `json:"objects"` // that were compared
	Differences []Difference `json:"differences"`
	Error       string       `json:"error,omitempty"` // why they could not be compared
}

// A Difference is one thing in which the two sides differ, see verify.Difference.
type Difference struct {
	Agent  string `json:"agent"`
	Key    string `json:"key"`
	What   string `json:"what"`
	Hub    string `json:"hub,omitempty"`
	Spoke  string `json:"spoke,omitempty"`
	Reason string `json:"reason,omitempty"` // the likely one
}

// String returns the difference as one line, without the agent.
func (d Difference) String() string {
	what := verify.Difference{What: verify.What(d.What), Hub: d.Hub, Spoke: d.Spoke, Reason: d.Reason}
	what.Key, _ = resource.ParseKey(d.Key)
	return what.String()
}
