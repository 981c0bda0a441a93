package command

import (
	"context"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/blockfile"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// A blocklist is where it is kept who is not let in, and why.
type blocklist interface {
	Blocked(ctx context.Context) (map[string]string, error)
	WatchBlocked(ctx context.Context, tell func(map[string]string)) error
}

// A blockedFile is a blocklist in a file.
type blockedFile struct {
	blockfile.File
	log *zap.Logger
}

// WatchBlocked implements blocklist.
func (f blockedFile) WatchBlocked(ctx context.Context, tell func(map[string]string)) error {
	return f.Watch(ctx, f.log, tell)
}

// A porter keeps out who is on a blocklist.
type porter struct {
	own  *identity.Credentials
	list blocklist
	log  *zap.Logger
}

// follow reads the list, before anybody is let in, and returns what follows it until ctx is
// done; nil if there is none.
func (p porter) follow(ctx context.Context) (func(context.Context) error, error) {
	if p.list == nil {
		return nil, nil
	}
	is, err := p.list.Blocked(ctx)
	if err != nil {
		return nil, err
	}
	p.block(is)
	return func(ctx context.Context) error { return p.list.WatchBlocked(ctx, p.block) }, nil
}

func (p porter) block(is map[string]string) {
	b, err := identity.NewBlocklist(is)
	if err != nil {
		p.log.Error("an entry of the blocklist blocks nobody: correct or remove it", zap.Error(err))
	}
	p.own.Block(b)
}
