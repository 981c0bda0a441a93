package chaos

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

type fields = map[string]any

// What marks copies, and asks for something.
const (
	sourceMark    = "argocd.argoproj.io/source-uid"
	refreshMark   = "argocd.argoproj.io/refresh"
	ignoreMark    = "argocd-agent.argoproj-labs.io/ignore-sync" // a label
	finalizer     = "resources-finalizer.argocd.argoproj.io"
	localServer   = "https://kubernetes.default.svc"
	markPrefix    = "example.com/mark-"
	repositoryTyp = "repository"
)

// A site is where what is of one agent is on one cluster.
type site struct {
	side   resource.Side
	owner  bool // its objects are originals
	agent  string
	mode   resource.Mode
	mapped bool // by destination
	client dynamic.Interface
	apps   string // the namespace of its Applications
	home   string // that of everything else
}

// resources says where the API has a kind.
var resources = map[resource.Kind]schema.GroupVersionResource{
	resource.Application: stack.Applications(),
	resource.Project:     stack.AppProjects(),
	resource.Secret:      {Version: "v1", Resource: "secrets"},
}

func (s site) in(k resource.Kind) dynamic.ResourceInterface {
	if k == resource.Application {
		return s.client.Resource(resources[k]).Namespace(s.apps)
	}
	return s.client.Resource(resources[k]).Namespace(s.home)
}

// name returns what an object of the model is called here. Projects and Secrets of all agents
// share a namespace of the hub.
func (s site) name(k key) string {
	switch {
	case k.kind == resource.Application, s.mode == resource.Autonomous && s.side == resource.Agent:
		return k.name
	default:
		return s.agent + "-" + k.name
	}
}

// key is the inverse of name: false is for what is no object of the agent's.
func (s site) key(kind resource.Kind, name string) (key, bool) {
	if full := s.name(key{kind, ""}); strings.HasPrefix(name, full) {
		return key{kind, name[len(full):]}, true
	}
	return key{}, false
}

// spec returns the part that carries the number of an object, as it is to be here, and the
// name of its field.
func (s site) spec(k key, n int) (field string, value fields) {
	switch {
	case k.kind == resource.Secret:
		data := fields{}
		for name, text := range map[string]string{
			"url": "https://git.example.com/" + k.name, "username": "git", "password": fmt.Sprint("secret-", n),
			"project": s.agent + "-kept-0",
		} {
			data[name] = base64.StdEncoding.EncodeToString([]byte(text))
		}
		return "data", data
	case k.kind == resource.Project:
		return "spec", s.project(n)
	}
	destination, project := fields{"server": localServer, "namespace": "web"}, "default"
	if s.side == resource.Principal {
		destination = fields{"name": s.agent, "namespace": "web"}
		if s.owner && (k.name[len(k.name)-1]-'0')%3 == 1 { // whoever writes it knows the cluster by its address
			destination = fields{"server": "https://hub.example.com:9090?agentName=" + s.agent, "namespace": "web"}
		}
		if s.mode == resource.Autonomous {
			project = s.agent + "-default"
		}
	}
	return "spec", fields{
		"project": project, "destination": destination,
		"source": fields{"repoURL": "https://git.example.com/apps.git", "path": "shop", "targetRevision": revision(n)},
	}
}

// project returns the spec of a project: that of an original, or what the mapping makes of it.
func (s site) project(n int) fields {
	out := fields{"description": fmt.Sprint("d", n), "sourceRepos": []any{"*"}}
	switch {
	case s.mode == resource.Managed && s.side == resource.Agent:
		out["destinations"] = []any{fields{"server": localServer, "name": s.agent, "namespace": "*"}}
	case s.side == resource.Agent:
		out["destinations"] = []any{fields{"server": localServer, "namespace": "*"}}
	default:
		out["destinations"] = []any{fields{"name": s.agent, "namespace": "*"}}
		out["sourceNamespaces"] = []any{s.apps}
	}
	if s.mapped {
		out["sourceNamespaces"] = []any{s.apps}
	}
	return out
}

// object returns an object as its owner makes it.
func (s site) object(k key, n int, finalizer string) *unstructured.Unstructured {
	field, value := s.spec(k, n)
	u := &unstructured.Unstructured{Object: fields{field: value}}
	u.SetGroupVersionKind(resources[k.kind].GroupVersion().WithKind(string(k.kind)))
	u.SetName(s.name(k))
	if k.kind == resource.Secret {
		u.SetLabels(map[string]string{"argocd.argoproj.io/secret-type": repositoryTyp})
	}
	if finalizer != "" {
		u.SetFinalizers([]string{finalizer})
	}
	return u
}

// list returns all objects of a kind that could be the agent's.
func (s site) list(ctx context.Context, kind resource.Kind) (map[key]*unstructured.Unstructured, error) {
	var options metav1.ListOptions
	if kind == resource.Secret {
		options.LabelSelector = "argocd.argoproj.io/secret-type=" + repositoryTyp
	}
	list, err := s.in(kind).List(ctx, options)
	if err != nil {
		return nil, err
	}
	out := map[key]*unstructured.Unstructured{}
	for i := range list.Items {
		u := &list.Items[i]
		if k, ok := s.key(kind, u.GetName()); ok && !strings.HasPrefix(k.name, bystander) {
			out[k] = u
		}
	}
	return out, nil
}

// merge changes an object that is there by a merge patch. It returns nil for one that is not.
func (s site) merge(ctx context.Context, k key, patch fields) (*unstructured.Unstructured, error) {
	u, err := s.in(k.kind).Patch(ctx, s.name(k), types.MergePatchType, []byte(resource.Canonical(patch)), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return u, err
}

// get returns an object, or nil.
func (s site) get(ctx context.Context, k key) (*unstructured.Unstructured, error) {
	u, err := s.in(k.kind).Get(ctx, s.name(k), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return u, err
}

// ask asks for a sync of an Application, as Argo CD's API server does, unless one is asked for
// or the Application is not there. It reports whether it has asked.
func (s site) ask(ctx context.Context, k key, request string) (asked bool, err error) {
	return asked, retry.OnError(retry.DefaultRetry, apierrors.IsConflict, func() error {
		u, err := s.get(ctx, k)
		if err != nil || u == nil || u.Object["operation"] != nil {
			return err
		}
		u.Object["operation"] = fields{"initiatedBy": fields{"username": request}, "sync": fields{"revision": request}}
		unstructured.RemoveNestedField(u.Object, "status", "operationState")
		_, err = s.in(k.kind).Update(ctx, u, metav1.UpdateOptions{})
		asked = err == nil
		return err
	})
}

// terminate ends the sync of an Application, as Argo CD's API server does, if it runs and its
// name begins like this. It returns its name if it has.
func (s site) terminate(ctx context.Context, k key, prefix string) (name string, err error) {
	return name, retry.OnError(retry.DefaultRetry, apierrors.IsConflict, func() error {
		u, err := s.get(ctx, k)
		if err != nil || u == nil || at(u, "status", "operationState") == nil || at(u, "status", "operationState", "phase") == "Terminating" {
			return err
		}
		asked := requested(u, "operation")
		if asked == "" || !strings.HasPrefix(asked, prefix) {
			return nil
		}
		if err := unstructured.SetNestedField(u.Object, "Terminating", "status", "operationState", "phase"); err != nil {
			return err
		}
		if _, err = s.in(k.kind).Update(ctx, u, metav1.UpdateOptions{}); err == nil {
			name = asked
		}
		return err
	})
}

// at returns a piece of an object, or nil.
func at(u *unstructured.Unstructured, path ...string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
	return v
}

// requested returns who has asked for the operation under a path, "" if there is none.
func requested(u *unstructured.Unstructured, path ...string) string {
	name, _ := at(u, append(path, "initiatedBy", "username")...).(string)
	return name
}

func cascades(u *unstructured.Unstructured) bool { return cascade(u) != "" }

// cascade returns Argo CD's finalizer of an object, or "".
func cascade(u *unstructured.Unstructured) string {
	if i := slices.IndexFunc(u.GetFinalizers(), argos); i >= 0 {
		return u.GetFinalizers()[i]
	}
	return ""
}

// argos reports whether a finalizer is one for which Argo CD deletes what it has deployed.
func argos(f string) bool { return f == finalizer || strings.HasPrefix(f, finalizer+"/") }
