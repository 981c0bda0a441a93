package fleet

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/kubestore"
	"github.com/argocd-fabric/argocd-agent/cli/kube"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Spoke returns the namespace of an agent on the API server that all agents share.
func Spoke(agent int) string { return fmt.Sprint("spoke-", agent+1) }

// NewCluster returns the store of one side of an API server: its Applications, of all
// namespaces. It must be Run.
func NewCluster(kubeconfig string, side resource.Side) (*kubestore.Store, error) {
	cfg, err := kube.Connect(kubeconfig, "")
	if err != nil {
		return nil, err
	}
	return kubestore.New(kubestore.Config{
		REST: cfg, Side: side, Home: Namespace, Kinds: []resource.Kind{resource.Application},
		MakeNamespaces: true, QPS: -1, Log: zap.NewNop(),
	})
}

// cluster starts the store that all agents share; nil where each has one in memory.
func (f *fleet) cluster() (backend.Store, error) {
	if f.order.Kubeconfig == "" {
		return nil, nil
	}
	s, err := NewCluster(f.order.Kubeconfig, resource.Agent)
	if err != nil {
		return nil, err
	}
	f.parts.Go(func() error { return s.Run(f.ctx) })
	return s, nil
}
