package command

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/observe"
)

// adoptions returns the list of what an agent that observes has adopted, nil if it does not
// observe. One that does not writes everything: it forgets the list, so that to observe later
// on is to touch nothing.
func adoptions(c *cli.Context, l *ledger.Ledger) (observe.List, error) {
	set := l.Set("adopted")
	if c.Bool("observe") {
		return set, nil
	}
	return nil, set.Clear()
}

// look is a keeper that makes nothing: where another would keep what is fresh, that is kept
// as long as the process lives.
func look(keep keeper) keeper {
	unkept := errors.New("command: nothing is made while observing")
	return func(ctx context.Context, name string, fresh func() ([]byte, error)) ([]byte, error) {
		text, err := keep(ctx, name, func() ([]byte, error) { return nil, unkept })
		if errors.Is(err, unkept) {
			return fresh()
		}
		return text, err
	}
}
