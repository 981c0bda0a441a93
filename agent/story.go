package agent

import (
	"context"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// story returns what this agent knows of an object.
func (a *Agent) story(ctx context.Context, k resource.Key) (inquiry.Story, error) {
	account, err := a.session.Load().Account(ctx, k)
	if err != nil {
		return inquiry.Story{}, err
	}
	return inquiry.Story{
		Now: time.Now().UTC(), Since: a.began.UTC(), Mode: a.cfg.Rules.Mode.String(), State: inquiry.StateOf(account), Page: a.book.Page(k),
	}, nil
}
