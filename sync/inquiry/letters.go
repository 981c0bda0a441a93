// Package inquiry is what a principal asks of an agent's process while it is there: what
// the agent's store holds, and what the agent could not do. It is for people who look into
// something, and nothing that is kept in step depends on it.
package inquiry

import (
	"context"
	"errors"
	"fmt"

	"github.com/argocd-fabric/argocd-agent/sync/ledger"
)

// ErrNoLetter says that there is no dead letter with an id, or no longer.
var ErrNoLetter = errors.New("there is no such dead letter")

// Letters is what may be done with the dead letters of one side of a link: here, see Desk,
// or in the peer's process, see Client.
type Letters interface {
	// List returns all letters without their events, the one that was seen last at the end.
	List(ctx context.Context) ([]ledger.Letter, error)
	// Get returns the letter with an id, or ErrNoLetter.
	Get(ctx context.Context, id string) (ledger.Letter, error)
	// Retry has what the letter is about tried again. The letter goes once that has
	// succeeded.
	Retry(ctx context.Context, id string) error
	// Drop removes the letter. It comes again only with the next cause.
	Drop(ctx context.Context, id string) error
}

// A Desk is Letters that are in this process.
type Desk struct {
	Book  *ledger.Book
	Again func(ctx context.Context, key string) error // has what could not be done for a key tried again
}

var _ Letters = Desk{}

// List implements Letters.
func (d Desk) List(context.Context) ([]ledger.Letter, error) {
	all := d.Book.All()
	for i := range all {
		all[i].Event = nil
	}
	return all, nil
}

// Get implements Letters.
func (d Desk) Get(_ context.Context, id string) (ledger.Letter, error) {
	l, ok := d.Book.Get(id)
	if !ok {
		return l, fmt.Errorf("inquiry: letter %q: %w", id, ErrNoLetter)
	}
	return l, nil
}

// Retry implements Letters.
func (d Desk) Retry(ctx context.Context, id string) error {
	l, err := d.Get(ctx, id)
	if err != nil {
		return err
	}
	return d.Again(ctx, l.Key)
}

// Drop implements Letters.
func (d Desk) Drop(_ context.Context, id string) error {
	there, err := d.Book.Remove(id)
	if err == nil && !there {
		err = fmt.Errorf("inquiry: letter %q: %w", id, ErrNoLetter)
	}
	return err
}
