package admin

import (
	"cmp"
	"context"
	"fmt"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/verify"
)

// A knowledge is what is known of a link whose two sides differ.
type knowledge struct {
	mode       resource.Mode
	held       map[string]bool   // by key: its deletion is
	letters    map[string]Letter // by key
	hub, spoke *Side
	agent      string
	approve    string // how held deletions are approved
}

// knowledge returns what both sides know by now.
func (c *comparison) knowledge(ctx context.Context) knowledge {
	a, err := c.s.cfg.Principal.Agent(c.agent.Name)
	if err != nil {
		a = c.agent // it has left just now
	}
	seen := describe(a)
	k := knowledge{
		mode: a.Mode, held: map[string]bool{}, letters: map[string]Letter{}, hub: &seen.Hub, spoke: c.s.standing(ctx, a),
		agent: a.Name, approve: "argocd-agentctl agent approve-deletions " + a.Name,
	}
	seen.Hub.Error = seen.Error
	for _, h := range seen.Held {
		k.held[h.Key] = true
	}
	letters, _ := c.s.lettersOf(ctx, a.Name) // those that can be read
	for _, l := range letters {
		k.letters[l.Key] = l
	}
	return k
}

// reason returns why two sides differ, as far as anybody knows.
func (k knowledge) reason(d verify.Difference, moved bool) string {
	if k.spoke != nil && k.spoke.misplaced {
		return k.spoke.Error
	}
	if k.held[d.Key.String()] {
		return "its deletion is held until it is approved: " + k.approve
	}
	if l, ok := k.letters[d.Key.String()]; ok {
		return fmt.Sprintf("dead letter %s of the %s: %s: %s", l.ID, l.Side, l.Cause, l.Reason)
	}
	if k.spoke != nil && k.spoke.Withheld > 0 && !copiedToHub(k.mode, d.What) {
		return fmt.Sprintf("the agent only observes, and withholds %d changes: argocd-agentctl plan %s", k.spoke.Withheld, k.agent)
	}
	return cmp.Or(d.Reason, k.unsettled(d, moved))
}

// unsettled says what keeps the side that has the copy from making it equal.
func (k knowledge) unsettled(d verify.Difference, moved bool) string {
	name, copier := SpokeSide, k.spoke
	if copiedToHub(k.mode, d.What) {
		name, copier = HubSide, k.hub
	}
	switch {
	case copier == nil:
		return "the agent has gone away"
	case moved:
		return "it changes all the time"
	case copier.Retrying > 0:
		return fmt.Sprintf("%d of the %s's objects cannot be written, and are tried again", copier.Retrying, name)
	case copier.Error != "":
		return copier.Error
	case !copier.InStep:
		return "not all that the other side has said has arrived at the " + name
	}
	return ""
}
