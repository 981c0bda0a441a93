package matrix

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/e2e/stack/stacktest"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// onKubernetes is the ground of two API servers, which all stories share: each has namespaces
// of its own on both.
type onKubernetes struct {
	processes
	stack *stack.Stack
}

func openKubernetes(t *testing.T) ground {
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // about Argo CD's own finalizer
	s := stacktest.Start(t, stack.Config{Clusters: []stack.ClusterConfig{
		{Name: "hub", CRDs: true, Controllers: true}, // one of which ends foreground deletions
		{Name: "spoke", CRDs: true, Controllers: true},
	}})
	return onKubernetes{newProcesses(t, s), s}
}

func (g onKubernetes) of(s resource.Side) *stack.Cluster {
	return g.stack.Cluster(map[resource.Side]string{resource.Principal: "hub", resource.Agent: "spoke"}[s])
}

func (g onKubernetes) cluster(w *world, s *side) (cluster, error) {
	c := g.of(s.Side)
	err := c.Namespace(w.t.Context(), s.home)
	if s == w.owner() && s.apps != w.name { // that is made with the agent, and others by it
		err = errors.Join(err, c.Namespace(w.t.Context(), s.apps))
	}
	if err != nil {
		return nil, err
	}
	return api{s.Side, c.Dynamic(), s.namespaces()}, nil
}

func (g onKubernetes) programs(w *world) (principal, agent program, err error) {
	by := func(s resource.Side) []string { return []string{"--kubeconfig", g.of(s).Kubeconfig()} }
	if err := g.register(w, append(by(resource.Principal), "--principal-namespace", w.hub.home)...); err != nil {
		return nil, nil, err
	}
	return g.principal(w, by(resource.Principal)...), g.agent(w, by(resource.Agent)...), nil
}

// An api is a cluster behind an API server.
type api struct {
	side       resource.Side
	client     dynamic.Interface
	namespaces []string // of the story
}

func resourceOf(k resource.Kind) schema.GroupVersionResource {
	if k == resource.Project {
		return stack.AppProjects()
	}
	return stack.Applications()
}

func (a api) in(k resource.Kind, namespace string) dynamic.ResourceInterface {
	return a.client.Resource(resourceOf(k)).Namespace(namespace)
}

func (a api) objects(ctx context.Context) (objects, error) {
	out := objects{}
	for _, kind := range kinds {
		for _, namespace := range a.namespaces {
			list, err := a.in(kind, namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			for i := range list.Items {
				o := a.read(&list.Items[i])
				out[o.Key] = o
			}
		}
	}
	return out, nil
}

func (a api) follow(ctx context.Context, f func(resource.Object)) error {
	shown := make(chan resource.Object)
	for _, namespace := range a.namespaces {
		w, err := a.in(resource.Application, namespace).Watch(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		go func() {
			defer w.Stop()
			for e := range w.ResultChan() {
				if u, ok := e.Object.(*unstructured.Unstructured); ok && u.GetKind() == string(resource.Application) {
					select {
					case shown <- a.read(u):
					case <-ctx.Done():
						return
					}
				}
			}
		}()
	}
	for {
		select {
		case o := <-shown:
			f(o)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (a api) edit(ctx context.Context, k resource.Key, f func(*resource.Object)) error {
	for {
		u, err := a.in(k.Kind, k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
		missing := apierrors.IsNotFound(err)
		if missing {
			u, err = &unstructured.Unstructured{}, nil
			u.SetGroupVersionKind(resourceOf(k.Kind).GroupVersion().WithKind(string(k.Kind)))
			u.SetNamespace(k.Namespace)
			u.SetName(k.Name)
		}
		if err != nil {
			return err
		}
		before := a.read(u)
		after := before
		f(&after)
		if after == before {
			return nil
		}
		if err := a.lay(u, before, after); err != nil {
			return err
		}
		if missing {
			_, err = a.in(k.Kind, k.Namespace).Create(ctx, u, metav1.CreateOptions{})
		} else {
			_, err = a.in(k.Kind, k.Namespace).Update(ctx, u, metav1.UpdateOptions{})
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
}

func (a api) remove(ctx context.Context, k resource.Key) error {
	return a.in(k.Kind, k.Namespace).Delete(ctx, k.Name, metav1.DeleteOptions{})
}

func (a api) finish(ctx context.Context, k resource.Key) error {
	err := a.edit(ctx, k, func(o *resource.Object) {
		if o.Deleting {
			o.Parts[resource.Meta] = unfinished(o.Parts[resource.Meta])
		}
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (api) writes(context.Context) (string, error) { return "", nil } // each gives an object another version

const (
	sourceAnnotation  = "argocd.argoproj.io/source-uid"
	hubAnnotation     = "argocd.argoproj.io/principal-uid"
	requestAnnotation = "argocd-agent.argoproj-labs.io/operation-id"
	refreshAnnotation = "argocd.argoproj.io/refresh"
	agentLabel        = "argocd-agent.argoproj-labs.io/agent-name"
)

// read takes an object apart, as SPEC of the project says where its pieces are: a second
// time, so that no mistake of our store is repeated.
func (a api) read(u *unstructured.Unstructured) resource.Object {
	o := resource.Object{
		Key: resource.Key{Kind: resource.Kind(u.GetKind()), Namespace: u.GetNamespace(), Name: u.GetName()},
		UID: string(u.GetUID()), Version: u.GetResourceVersion(), Deleting: u.GetDeletionTimestamp() != nil,
	}
	part := func(path ...string) string {
		v, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
		return resource.Canonical(v)
	}
	o.Parts[resource.Spec], o.Parts[resource.Operation] = part("spec"), part("operation")
	o.Parts[resource.OpState] = part("status", "operationState")
	status, _, _ := unstructured.NestedMap(u.Object, "status")
	delete(status, "operationState")
	withoutOurs(status)
	if len(status) > 0 {
		o.Parts[resource.Status] = resource.Canonical(status)
	}
	m := resource.Metadata{Labels: u.GetLabels(), Annotations: u.GetAnnotations()}
	for _, f := range u.GetFinalizers() {
		if strings.HasPrefix(f, "resources-finalizer.argocd.argoproj.io") {
			m.Finalizers = append(m.Finalizers, f)
		}
	}
	o.Origin = resource.Origin{UID: m.Annotations[sourceAnnotation], By: m.Annotations[hubAnnotation]}
	if a.side == resource.Principal {
		o.Origin.By = m.Labels[agentLabel]
	}
	o.Parts[resource.RefreshMark] = m.Annotations[refreshAnnotation]
	for _, key := range []string{sourceAnnotation, hubAnnotation, requestAnnotation, refreshAnnotation} {
		delete(m.Annotations, key)
	}
	delete(m.Labels, agentLabel)
	o.Parts[resource.Meta] = m.Text()
	return o
}

// withoutOurs takes the conditions out of a status that tell of us.
func withoutOurs(status map[string]any) {
	list, _ := status["conditions"].([]any)
	var others []any
	for _, c := range list {
		switch c.(map[string]any)["type"] {
		case "AgentError", "AgentPending", "DeletionHeld":
		default:
			others = append(others, c)
		}
	}
	delete(status, "conditions")
	if len(others) > 0 {
		status["conditions"] = others
	}
}

// lay makes of an object that was read as before what after says. Nobody here edits
// conditions of ours.
func (a api) lay(u *unstructured.Unstructured, before, after resource.Object) error {
	var errs error
	put := func(p resource.Part, path ...string) {
		if before.Parts[p] == after.Parts[p] {
			return
		}
		v, err := resource.Decode(after.Parts[p])
		if v == nil {
			unstructured.RemoveNestedField(u.Object, path...)
		} else if err == nil {
			inner := &unstructured.Unstructured{} // whose numbers are of the types that are encoded
			err = inner.UnmarshalJSON([]byte(fmt.Sprintf(`{"apiVersion":"v1","kind":"Piece","piece":%s}`, after.Parts[p])))
			if err == nil {
				err = unstructured.SetNestedField(u.Object, inner.Object["piece"], path...)
			}
		}
		errs = errors.Join(errs, err)
	}
	state, _, _ := unstructured.NestedFieldCopy(u.Object, "status", "operationState")
	put(resource.Spec, "spec")
	put(resource.Operation, "operation")
	put(resource.Status, "status")
	if state != nil {
		errs = errors.Join(errs, unstructured.SetNestedField(u.Object, state, "status", "operationState"))
	}
	put(resource.OpState, "status", "operationState")
	was, is := resource.ParseMetadata(before.Parts[resource.Meta]), resource.ParseMetadata(after.Parts[resource.Meta])
	u.SetLabels(replaced(u.GetLabels(), was.Labels, is.Labels))
	annotations := replaced(u.GetAnnotations(), was.Annotations, is.Annotations)
	delete(annotations, refreshAnnotation)
	if mark := after.Parts[resource.RefreshMark]; mark != "" {
		annotations[refreshAnnotation] = mark
	}
	u.SetAnnotations(annotations)
	finalizers := is.Finalizers
	for _, f := range u.GetFinalizers() {
		if !strings.HasPrefix(f, "resources-finalizer.argocd.argoproj.io") {
			finalizers = append(finalizers, f)
		}
	}
	u.SetFinalizers(finalizers)
	return errs
}
