package command

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend/kubestore"
	"github.com/argocd-fabric/argocd-agent/proxy/token"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// connections keep how Argo CD reaches the clusters of agents that have registered themselves,
// and tell of others whose cluster Secrets do not say it.
type connections struct {
	home  *kubestore.Home
	ring  *token.Ring
	ca    func(context.Context) (identity.Text, error) // of the resource proxy's certificate
	renew bool                                         // whether agents register themselves
	log   *zap.Logger
}

// fresh returns how Argo CD is to reach the cluster of an agent from now on.
func (k *connections) fresh(ctx context.Context, agent string) (kubestore.Connection, error) {
	ca, err := k.ca(ctx)
	if err != nil {
		return kubestore.Connection{}, err
	}
	text, err := k.ring.Keys().Issue(agent, time.Now())
	if err != nil {
		return kubestore.Connection{}, fmt.Errorf("%w: argocd-agentctl jwt create-key makes one", err)
	}
	return kubestore.Connection{Token: text, CA: ca.PEM}, nil
}

// run looks at all cluster Secrets at first and whenever the key that signs or the CA is
// another, until ctx is done, and returns its cause.
func (k *connections) run(ctx context.Context) error {
	look := time.NewTicker(renewEvery)
	defer look.Stop()
	last, first := "", true
	for {
		if is := k.made(ctx); first || k.renew && is != "" && is != last {
			if err := k.see(ctx, first); err != nil && ctx.Err() == nil {
				k.log.Warn("it is not known by what Argo CD reaches the agents' clusters", zap.Error(err))
			}
			last, first = is, false
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// made returns what stands for what Connections are made of now; "" if they cannot be.
func (k *connections) made(ctx context.Context) string {
	keys := k.ring.Keys()
	ca, err := k.ca(ctx)
	if err != nil || len(keys) == 0 {
		return ""
	}
	return keys[0].Fingerprint() + string(ca.PEM)
}

// see renews the Connections of agents that have registered themselves, and tells of those that
// have none, if it is to.
func (k *connections) see(ctx context.Context, tell bool) error {
	all, err := k.home.Registrations(ctx)
	if err != nil {
		return err
	}
	var without []string
	for _, r := range all {
		switch {
		case k.renew && r.SelfRegistered:
			if err := k.refresh(ctx, r); err != nil {
				k.log.Error("the token of an agent that has registered itself cannot be renewed: argocd-agentctl agent reconfigure --reissue-token", zap.String("agent", r.Name), zap.Error(err))
			}
		case !r.Connection.Proves():
			without = append(without, r.Name)
		}
	}
	if tell && len(without) > 0 {
		k.log.Warn("cluster Secrets have no token by which Argo CD could see the agents' clusters: argocd-agentctl agent reconfigure NAME --reissue-token",
			zap.Int("agents", len(without)), zap.Strings("first", without[:min(len(without), 10)]))
	}
	return nil
}

// refresh renews one Connection, if there is need.
func (k *connections) refresh(ctx context.Context, r kubestore.Registration) error {
	keys := k.ring.Keys()
	if len(keys) == 0 {
		return nil // it comes, and this is looked at again
	}
	is, err := k.fresh(ctx, r.Name)
	if err != nil {
		return err
	}
	if keys.Current(r.Connection.Token, r.Name, time.Now()) && bytes.Equal(r.Connection.CA, is.CA) {
		return nil
	}
	_, err = k.home.ChangeAgent(ctx, r.Name, kubestore.Change{Connection: &is})
	if err == nil {
		k.log.Info("an agent that has registered itself has another token", zap.String("agent", r.Name))
	}
	return err
}
