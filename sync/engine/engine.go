package engine

import (
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Config says which side of which link an Engine is.
type Config struct {
	Side  resource.Side
	Rules resource.Rules
	Self  string // our identity: the hub's, or the agent's name
	Peer  string // the peer's identity where it is known beforehand: the agent's name at the principal
}

// Engine is the state of one side of one link. It is not safe for concurrent use.
type Engine struct{ cfg Config }

// New returns the Engine for one side of a link.
func New(c Config) *Engine { return &Engine{cfg: c} }

// Step takes in one event and returns what must now be done, in order.
func (e *Engine) Step(now time.Time, ev Event) []Action { return nil }

// A Status says how one side of a link stands.
type Status struct {
	InStep bool     // the copy of the peer's table is known to be whole
	Rows   int      // in our table
	Copied int      // rows of the peer's table that are known
	Held   []Absent // copies that are not removed for absence until somebody approves
	Theirs []Absent // the same on the peer's side
	Busy   int      // writes under way
	Faulty int      // keys whose last write failed or was refused
}

// Status returns how this side stands.
func (e *Engine) Status() Status { return Status{} }
