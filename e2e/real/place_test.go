package real

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A place is where the Applications of one agent are on one side, or the objects of another
// kind in the namespace of Argo CD. What is done there is done by the cluster's
// administrator.
type place struct {
	*stack.Cluster
	namespace string
	kind      resource.Kind
}

// of returns the place of another kind beside p.
func (p place) of(kind resource.Kind) place { return place{p.Cluster, argocd, kind} }

// fields is a JSON object.
type fields = map[string]any

func (p place) objects() dynamic.ResourceInterface {
	return p.Dynamic().Resource(kinds[p.kind].resource).Namespace(p.namespace)
}

// kinds say where objects of each kind are in the API, and which of them travel.
var kinds = map[resource.Kind]struct {
	resource schema.GroupVersionResource
	which    metav1.ListOptions
}{
	resource.Application: {resource: stack.Applications()},
	resource.Project:     {resource: stack.Applications().GroupVersion().WithResource("appprojects")},
	resource.Secret:      {secrets, metav1.ListOptions{LabelSelector: "argocd.argoproj.io/secret-type in (repository, repo-creds)"}},
	resource.ConfigMap:   {configMaps, metav1.ListOptions{FieldSelector: "metadata.name=argocd-gpg-keys-cm"}},
}

// list returns those objects at p that travel.
func (p place) list(ctx context.Context) ([]unstructured.Unstructured, error) {
	list, err := p.objects().List(ctx, kinds[p.kind].which)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func (p place) get(t testing.TB, name string) *unstructured.Unstructured {
	t.Helper()
	app, err := p.objects().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return app
}

// all returns those by name.
func (p place) all(ctx context.Context) (map[string]*unstructured.Unstructured, error) {
	list, err := p.list(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]*unstructured.Unstructured{}
	for i, o := range list {
		out[o.GetName()] = &list[i]
	}
	return out, nil
}

func (p place) create(t testing.TB, app *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	made, err := p.objects().Create(t.Context(), app, metav1.CreateOptions{})
	require.NoError(t, err)
	return made
}

// patch applies a merge patch.
func (p place) patch(t testing.TB, name string, patch fields) *unstructured.Unstructured {
	t.Helper()
	app, err := p.merge(t.Context(), name, patch)
	require.NoError(t, err)
	return app
}

func (p place) merge(ctx context.Context, name string, patch fields) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	return p.objects().Patch(ctx, name, types.MergePatchType, text, metav1.PatchOptions{})
}

func (p place) remove(t testing.TB, name string) {
	t.Helper()
	require.NoError(t, p.objects().Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// refresh has Argo CD compare an Application, and returns once it has.
func (p place) refresh(t testing.TB, name string) {
	t.Helper()
	const annotation = "argocd.argoproj.io/refresh"
	p.patch(t, name, annotated(annotation, "normal"))
	within(t, time.Minute, p.is(name, func(app *unstructured.Unstructured) error {
		return equal("", app.GetAnnotations()[annotation])
	}))
}

// is returns a check of the object of that name.
func (p place) is(name string, checks ...func(*unstructured.Unstructured) error) func(context.Context) error {
	return func(ctx context.Context) error {
		app, err := p.objects().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("on %s: %w", p.Name(), err)
		}
		for _, check := range checks {
			if err := check(app); err != nil {
				return fmt.Errorf("%s/%s on %s: %w", p.namespace, name, p.Name(), err)
			}
		}
		return nil
	}
}

// gone returns a check that there is no object of that name.
func (p place) gone(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		app, err := p.objects().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("%s/%s on %s is there, with finalizers %q", p.namespace, name, p.Name(), app.GetFinalizers())
		}
		return err
	}
}

// has returns a check that an object has value at the end of path; a nil value is none.
func has(value any, path ...string) func(*unstructured.Unstructured) error {
	return func(app *unstructured.Unstructured) error { return equal(value, at(app, path...)) }
}

// healthy checks that an Application is Synced and Healthy.
func healthy(app *unstructured.Unstructured) error {
	if sync, health := at(app, "status", "sync", "status"), at(app, "status", "health", "status"); sync != "Synced" || health != "Healthy" {
		return fmt.Errorf("is %v and %v: %v", sync, health, at(app, "status", "conditions"))
	}
	return nil
}

// at returns what an object has at the end of path, or nil.
func at(app *unstructured.Unstructured, path ...string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(app.Object, path...)
	return v
}

func equal(want, is any) error {
	if !reflect.DeepEqual(want, is) {
		return fmt.Errorf("want %v, is %v", want, is)
	}
	return nil
}

// within fails the test if check does not succeed in time, and returns how long it took.
func within(t testing.TB, limit time.Duration, check func(context.Context) error) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	start := time.Now()
	var last error // before the time was up
	err := stack.Poll(ctx, 50*time.Millisecond, func(ctx context.Context) error {
		err := check(ctx)
		if ctx.Err() == nil {
			last = err
		}
		return err
	})
	require.NoError(t, errors.Join(err, last))
	return time.Since(start)
}

// all returns a check that all checks succeed.
func all(checks ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, check := range checks {
			if err := check(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// application returns an Application with a spec.
func application(name string, spec fields) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: fields{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
		"metadata": fields{"name": name}, "spec": spec,
	}}
}

// cascading gives an Application Argo CD's finalizer.
func cascading(app *unstructured.Unstructured) *unstructured.Unstructured {
	app.SetFinalizers([]string{finalizer})
	return app
}

const finalizer = "resources-finalizer.argocd.argoproj.io"

// spec returns a spec that deploys a directory of repo into a namespace of its own, as
// it is written for an agent on the hub.
func spec(agent, repo, namespace string) fields {
	return fields{
		"project":     "default",
		"source":      fields{"repoURL": repo, "path": stack.AppPath, "targetRevision": "main"},
		"destination": fields{"name": agent, "namespace": namespace},
		"syncPolicy": fields{
			"automated":   fields{"prune": true, "selfHeal": true},
			"syncOptions": []any{"CreateNamespace=true"},
		},
	}
}

// annotated returns a patch that sets an annotation; nil removes it.
func annotated(key string, value any) fields {
	return fields{"metadata": fields{"annotations": fields{key: value}}}
}
