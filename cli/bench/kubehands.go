package bench

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
	"github.com/argocd-fabric/argocd-agent/cli/kube"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// manager is who applies in place of a user.
const manager = "argocd-agentctl-bench"

// kubeHands applies Applications on an API server, and makes namespaces that are missing.
func kubeHands(kubeconfig string) (hands, error) {
	cfg, err := kube.Connect(kubeconfig, "")
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	apply := func(ctx context.Context, to schema.GroupVersionResource, k resource.Key, o map[string]any) error {
		o["metadata"] = map[string]any{"name": k.Name, "namespace": k.Namespace}
		_, err := client.Resource(to).Namespace(k.Namespace).Apply(ctx, k.Name, &unstructured.Unstructured{Object: o}, metav1.ApplyOptions{FieldManager: manager, Force: true})
		if err != nil {
			return fmt.Errorf("apply %s: %w", k, err)
		}
		return nil
	}
	made := map[int]bool{}
	return func(ctx context.Context, agent, app, n int) error {
		if !made[agent] {
			k := resource.Key{Kind: "Namespace", Name: fleet.Name(agent)}
			if err := apply(ctx, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, k, map[string]any{"apiVersion": "v1", "kind": "Namespace"}); err != nil {
				return err
			}
			made[agent] = true
		}
		spec, err := resource.Decode(fleet.Spec(n))
		if err != nil {
			return err
		}
		to := schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}
		return apply(ctx, to, hubKey(agent, app), map[string]any{"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "spec": spec})
	}, nil
}

// made returns the number before that of the first change. An API server may hold Applications
// of a run before this one, whose numbers are to be lower.
func (s Settings) made() int {
	if s.Kubeconfig == "" {
		return 0
	}
	return int(time.Now().UnixMilli())
}
