package kube

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// A Right is something that a Role or a ClusterRole grants.
type Right struct {
	Namespace string // "" is all of them
	Group     string // of the API; "" is the core
	Resource  string
	Name      string // the only object that is meant; "" is all
	Verb      string
}

// String returns the right as people say it, such as "get secrets/argocd-agent-ca in argocd".
func (r Right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Name != "" {
		text += "/" + r.Name
	}
	if r.Namespace == "" {
		return text + " in all namespaces"
	}
	return text + " in " + r.Namespace
}

// Rights returns what the Roles and ClusterRoles in manifests, in YAML, grant. Roles are taken
// to be in namespace.
func Rights(namespace string, manifests ...[]byte) (all []Right, err error) {
	for _, text := range manifests {
		docs := kubeyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
		for {
			doc, err := docs.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			var role rbacv1.Role // of which a ClusterRole has all that is read
			if err == nil {
				err = yaml.Unmarshal(doc, &role)
			}
			if err != nil {
				return nil, fmt.Errorf("kube: read roles: %w", err)
			}
			switch role.Kind {
			case "Role":
				all = append(all, granted(namespace, role.Rules)...)
			case "ClusterRole":
				all = append(all, granted("", role.Rules)...)
			}
		}
	}
	return all, nil
}

func granted(namespace string, rules []rbacv1.PolicyRule) (all []Right) {
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					for _, verb := range rule.Verbs {
						all = append(all, Right{namespace, group, resource, name, verb})
					}
				}
			}
		}
	}
	return all
}

// Lacking returns which of rights the one who cfg connects as has not, as the API server says.
func Lacking(ctx context.Context, cfg *rest.Config, rights []Right) (lacking []Right, err error) {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("kube: %w", err)
	}
	reviews := client.Resource(authorizationv1.SchemeGroupVersion.WithResource("selfsubjectaccessreviews"))
	for _, r := range rights {
		ask := authorizationv1.SelfSubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SelfSubjectAccessReview"},
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: r.Namespace, Group: r.Group, Resource: r.Resource, Name: r.Name, Verb: r.Verb,
			}},
		}
		if err := create(ctx, reviews, &ask); err != nil {
			return nil, fmt.Errorf("kube: ask whether it is allowed to %s: %w", r, err)
		}
		if !ask.Status.Allowed {
			lacking = append(lacking, r)
		}
	}
	return lacking, nil
}
