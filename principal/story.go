package principal

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/journal"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/trail"
)

// A Story is what the hub knows of an object of an agent's, see inquiry.Story.
type Story struct {
	Key     resource.Key // on the link
	Began   time.Time    // when the session did
	Account engine.Account
	Page    journal.Page
}

// Stories returns what is known here of the agent's objects of a kind that have a name.
func (p *Principal) Stories(ctx context.Context, agent string, kind resource.Kind, name string) (all []Story, err error) {
	fail := func(err error) ([]Story, error) { return nil, fmt.Errorf("principal: agent %s: %w", agent, err) }
	l, err := p.live(agent)
	if err != nil {
		return fail(err)
	}
	keys, err := l.session.Named(ctx, kind, name)
	if err != nil {
		return fail(err)
	}
	book := p.cfg.Journal.Book(agent)
	keys = append(keys, book.Named(kind, name)...) // what is gone here may not be gone there
	slices.SortFunc(keys, resource.Key.Compare)
	for _, k := range slices.Compact(keys) {
		account, err := l.session.Account(ctx, k)
		if err != nil {
			return fail(err)
		}
		all = append(all, Story{k, l.began, account, book.Page(k)})
	}
	return all, nil
}

// witness returns who is told what becomes of the changes of an agent's objects.
func (p *Principal) witness(agent string) trail.Witness {
	book := p.cfg.Journal.Book(agent)
	if p.cfg.Witness == nil {
		return book
	}
	return trail.Both(book, p.cfg.Witness(agent))
}
