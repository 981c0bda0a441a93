package real

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

// A rights is what deploy/ grants to one program on its cluster.
type rights struct {
	account   string // the ServiceAccount
	manifests []byte // a YAML stream
	roles     map[string][]grant
	grants    []grant // of all roles
}

// A grant is one thing that RBAC allows.
type grant struct {
	verb, group, resource string
	name                  string // "" is any
	namespace             string // "" is any
}

// String returns the grant as a person would say it.
func (g grant) String() string {
	return fmt.Sprintf("%s %s.%s %s in namespace %q", g.verb, g.resource, g.group, g.name, g.namespace)
}

// covers reports whether g is what a request was allowed by.
func (g grant) covers(r stack.AuditRecord) bool {
	resource := r.Resource
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	return g.verb == r.Verb && g.group == r.Group && g.resource == resource &&
		(g.name == "" || g.name == r.Name) && (g.namespace == "" || g.namespace == r.Namespace)
}

// readRights reads the accounts and roles of what a user applies.
func readRights(t *testing.T, s shipped) rights {
	r := rights{roles: map[string][]grant{}}
	for _, u := range s.objects {
		require.NoError(t, r.add(u), s.name)
	}
	for _, grants := range r.roles {
		r.grants = append(r.grants, grants...)
	}
	require.NotEmpty(t, r.account, "%s has a ServiceAccount", s.name)
	require.NotEmpty(t, r.grants, "%s grants something", s.name)
	return r
}

// add takes in a manifest, if it is about rights.
func (r *rights) add(u unstructured.Unstructured) error {
	switch u.GetKind() {
	case "ServiceAccount":
		r.account = u.GetName()
	case "Role", "ClusterRole":
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &role); err != nil {
			return err
		}
		name := u.GetKind() + " " + u.GetName()
		r.roles[name] = nil
		for _, rule := range role.Rules {
			r.roles[name] = append(r.roles[name], grantsOf(rule, u.GetNamespace())...)
		}
	case "RoleBinding", "ClusterRoleBinding":
	default:
		return nil
	}
	text, err := yaml.Marshal(u.Object)
	if err != nil {
		return err
	}
	r.manifests = append(append(r.manifests, "---\n"...), text...)
	return nil
}

func grantsOf(rule rbacv1.PolicyRule, namespace string) (out []grant) {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, verb := range rule.Verbs {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					out = append(out, grant{verb, group, resource, name, namespace})
				}
			}
		}
	}
	return out
}

// install gives our programs an account on each cluster, and the rights that deploy/ grants
// for the modes of the agents.
func (w *world) install(t *testing.T) {
	w.shipped, w.rights = map[string]shipped{}, map[string]rights{}
	hub := []string{}
	spoke := map[string][]string{} // components by cluster
	for agent, flags := range w.flags {
		if agent == "" || !slices.Contains(flags, "--destination-based-mapping") {
			continue
		}
		spoke[spokes[agent]] = append(spoke[spokes[agent]], "agent/destination")
		if slices.Contains(flags, "--create-namespace") {
			spoke[spokes[agent]] = append(spoke[spokes[agent]], "agent/destination/create-namespace")
		}
	}
	for agent := range w.autonomous {
		hub = []string{"principal/autonomous"}
		spoke[spokes[agent]] = []string{"agent/autonomous"}
	}
	for _, cluster := range w.clusters {
		w.shipped[cluster] = w.render(t, "agent", spoke[cluster]...)
	}
	w.shipped["hub"] = w.render(t, "principal", hub...)
	for cluster, s := range w.shipped {
		w.rights[cluster] = readRights(t, s)
		w.grant(t, cluster)
	}
	w.let(t)
}

// let gives agents the rights for live access, of which not all are used by every story.
func (w *world) let(t *testing.T) {
	if !w.proxies.are() {
		return
	}
	r := readRights(t, w.render(t, "agent", "agent/live", "agent/live/secrets", "agent/live/write", "agent/live/exec"))
	for _, cluster := range w.clusters[1:] {
		require.NoError(t, w.stack.Cluster(cluster).Apply(t.Context(), append(r.manifests, accounts...)))
	}
}

// accounts is what a user grants beside what deploy/ does, for a kind in --live-allow.
const accounts = `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: live-accounts}
rules: [{apiGroups: [""], resources: [serviceaccounts], verbs: [list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: live-accounts}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: live-accounts}
subjects: [{kind: ServiceAccount, name: argocd-agent-agent, namespace: argocd}]
`

// grant gives our program on a cluster its rights.
func (w *world) grant(t *testing.T, cluster string) {
	t.Helper()
	require.NoError(t, w.stack.Cluster(cluster).Apply(t.Context(), w.rights[cluster].manifests))
	w.granted(t, cluster)
}

// granted waits until the API server of a cluster knows of all rights of our program.
func (w *world) granted(t *testing.T, cluster string) {
	t.Helper()
	r := w.rights[cluster]
	client, err := kubernetes.NewForConfig(w.stack.Cluster(cluster).RESTConfig())
	require.NoError(t, err)
	for _, g := range r.grants {
		within(t, time.Minute, func(ctx context.Context) error { return r.allowed(ctx, client, g) })
	}
}

// user is the account as an API server knows it.
func (r rights) user() string { return "system:serviceaccount:" + argocd + ":" + r.account }

// allowed checks that the API server knows of a grant: its authorizer follows roles by
// watches, and a program that comes before it is refused.
func (r rights) allowed(ctx context.Context, client *kubernetes.Clientset, g grant) error {
	resource, sub, _ := strings.Cut(g.resource, "/")
	review, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: r.user(),
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: g.namespace, Verb: g.verb, Group: g.group, Resource: resource, Subresource: sub, Name: g.name,
			},
		},
	}, metav1.CreateOptions{})
	if err == nil && !review.Status.Allowed {
		err = fmt.Errorf("not allowed: %s: %s", g, review.Status.Reason)
	}
	return err
}

// audited expects that nothing was refused to our programs, unless it was meant to be, and, if all stories have been
// played, that they have used all that deploy/ grants, and so need it.
func (w *world) audited(t *testing.T, all bool) {
	unused := map[string][]grant{} // by account
	for cluster, r := range w.rights {
		records, err := w.stack.Cluster(cluster).Audit()
		require.NoError(t, err)
		records = w.unrevoked(cluster, records)
		records = slices.DeleteFunc(records, func(a stack.AuditRecord) bool { return a.User != r.user() })
		require.NotEmpty(t, records, "what our program has done on %s", cluster)
		for _, a := range records {
			if a.Code == http.StatusForbidden || a.Code == http.StatusUnauthorized {
				t.Errorf("%s: refused: %+v", cluster, a)
			}
		}
		left, ok := unused[r.account]
		if !ok {
			left = r.grants
		}
		left = slices.DeleteFunc(slices.Clone(left), func(g grant) bool { return slices.ContainsFunc(records, g.covers) })
		unused[r.account] = left
		t.Logf("%s: %d requests by %s", cluster, len(records), r.account)
	}
	for account, left := range unused {
		for _, g := range left {
			if all {
				t.Errorf("granted to %s, and never used: %s", account, g)
			}
		}
	}
}
