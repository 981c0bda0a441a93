package admin

import (
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
)

// Explanations say what has become of an object's changes, for each agent that it concerns.
type Explanations struct {
	Objects []Explanation `json:"objects"`
	// Unasked are agents of which the principal could not say whether it concerns them, and why.
	Unasked map[string]string `json:"unasked,omitempty"`
}

// An Explanation says what has become of an object's last changes, and who is behind and why.
// All times are by the hub's clock.
type Explanation struct {
	Agent     string         `json:"agent"`
	Mode      string         `json:"mode"`
	Object    Object         `json:"object"` // as the hub names it
	Key       string         `json:"key"`    // as on the link
	Now       time.Time      `json:"now"`
	Connected bool           `json:"connected"`
	Since     time.Time      `json:"since,omitzero"`  // when Connected changed last
	HubSince  time.Time      `json:"hubSince"`        // from when on the hub remembers
	Clock     *Clock         `json:"clock,omitempty"` // absent if the agent was not asked
	Hub       inquiry.State  `json:"hub"`
	Spoke     *inquiry.State `json:"spoke,omitempty"`
	Unknown   string         `json:"unknown,omitempty"` // why it is not known how the spoke stands
	Changes   []Passage      `json:"changes"`           // the oldest first
	Behind    []Reason       `json:"behind"`            // empty if nothing is behind
}

// A Clock compares the agent's clock with the hub's.
type Clock struct {
	Ahead  float64 `json:"aheadSeconds"`  // of the hub's; times of the spoke are told less this, if it is more than Within
	Within float64 `json:"withinSeconds"` // how exactly that is known
}

// A Passage is the way of one change.
type Passage struct {
	Digest string `json:"digest"` // the first characters; "" is that of a deletion
	Phase  string `json:"phase"`
	From   string `json:"from"` // hub or spoke: the side that says it
	Trace  string `json:"trace,omitempty"`
	Seen   Stage  `json:"seen"`    // in the store of that side
	Logged Stage  `json:"logged"`  // in that side's log
	Come   Stage  `json:"arrived"` // at the other side
	Done   Stage  `json:"applied"` // in the other side's store
	// Of a change to an Application of a managed agent: Argo CD has looked at it since it was
	// applied, and the hub knows.
	Reconciled *Stage `json:"reconciled,omitempty"`
	Back       *Stage `json:"back,omitempty"`
}

// A Stage says how far a change is.
type Stage struct {
	State string    `json:"state"` // done, waits, failed, unknown, or skipped: a later change has come before it
	At    time.Time `json:"at,omitzero"`
	After float64   `json:"afterSeconds,omitempty"` // since the first stage that is known
	Text  string    `json:"text,omitempty"`
}

// The states of a Stage.
const (
	StageDone    = "done"
	StageWaits   = "waits"
	StageFailed  = "failed"
	StageUnknown = "unknown"
	StageSkipped = "skipped"
)

// A Reason says what keeps a change from going on.
type Reason struct {
	Where string    `json:"where"` // hub, link or spoke
	What  string    `json:"what"`  // one word for programs
	Text  string    `json:"text"`
	Since time.Time `json:"since,omitzero"`
	Retry time.Time `json:"retry,omitzero"` // when it is tried again
}
