package natslink

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// visitor connects to servers elsewhere as the principal's user, and to nothing else.
func visitor(ctx context.Context, to ClusterConfig, log *zap.Logger) (*cluster, jetstream.JetStream, error) {
	common, err := Common{Logger: log}.check()
	if err != nil {
		return nil, nil, err
	}
	k, err := newCluster(HubConfig{Common: common, Cluster: &to})
	if err != nil {
		return nil, nil, fmt.Errorf("natslink: %w", err)
	}
	nc, err := k.dial(ctx, 0, "visitor", "_INBOX_visitor", k.realm.user)
	if err != nil {
		defer k.close()
		return nil, nil, k.barred(ctx, err)
	}
	k.hub = append(k.hub, nc)
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, nil, fmt.Errorf("natslink: %w", err)
	}
	return k, js, nil
}

// Survey finds out whether servers elsewhere are as a Hub needs them, as far as can be seen beside
// one that may be running, and says what they are.
func Survey(ctx context.Context, to ClusterConfig) (string, error) {
	k, js, err := visitor(ctx, to, zap.NewNop())
	if err != nil {
		return "", err
	}
	defer js.Conn().Close()
	if err := k.checkStore(ctx, js); err != nil {
		return "", err
	}
	if to.Operator != nil {
		defer k.close()
		for _, look := range []step{k.command, k.checkAccounts, k.checkServers, k.checkAgents} {
			if err := look(ctx); err != nil {
				return "", err
			}
		}
	}
	nc := js.Conn()
	info, err := js.AccountInfo(ctx)
	if err != nil {
		return "", fmt.Errorf("natslink: look at the account: %w", err)
	}
	return fmt.Sprintf("%s at %s is of version %s, takes messages of %d MiB, and keeps %d streams of account %s",
		nc.ConnectedServerName(), nc.ConnectedAddr(), nc.ConnectedServerVersion(), nc.MaxPayload()>>20, info.Streams, hubAccount), nil
}

// DiscardElsewhere removes all messages of agents that servers elsewhere keep, which no Hub may use.
func DiscardElsewhere(ctx context.Context, to ClusterConfig, log *zap.Logger) error {
	_, js, err := visitor(ctx, to, log)
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	all := js.StreamNames(ctx)
	for name := range all.Name() {
		if _, ours := agentOf(name); !ours {
			continue
		}
		if err := js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("natslink: remove what is kept: %w", err)
		}
	}
	if err := all.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return fmt.Errorf("natslink: remove what is kept: %w", err)
	}
	return nil
}
