package policy

import (
	"context"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// memory is Objects in memory, of the kinds in kinds.
type memory struct {
	mu       sync.Mutex
	objects  map[string]*metav1.PartialObjectMetadata // by resource.group/namespace/name
	events   []corev1.ObjectReference
	settings Settings
	err      error // of every look-up, if there is one
	lookups  int
}

// kinds are apiVersion, kind and resource; those with a star are in no namespace.
var kinds = strings.Fields(`
	v1|Pod|pods v1|ConfigMap|configmaps v1|Secret|secrets v1|Service|services v1|Event|events
	v1|ServiceAccount|serviceaccounts v1|Namespace|namespaces|* v1|Node|nodes|*
	apps/v1|Deployment|deployments apps/v1|ReplicaSet|replicasets batch/v1|Job|jobs batch/v1|CronJob|cronjobs
	argoproj.io/v1alpha1|Application|applications argoproj.io/v1alpha1|Rollout|rollouts
	rbac.authorization.k8s.io/v1|ClusterRole|clusterroles|*
	certificates.k8s.io/v1|CertificateSigningRequest|certificatesigningrequests|*
	authentication.k8s.io/v1|TokenReview|tokenreviews|*
	admissionregistration.k8s.io/v1|MutatingWebhookConfiguration|mutatingwebhookconfigurations|*`)

func (m *memory) find(is func(Kind) bool) (Kind, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return Kind{}, m.err
	}
	for _, text := range kinds {
		part := strings.Split(text, "|")
		gv, err := schema.ParseGroupVersion(part[0])
		if err != nil {
			return Kind{}, err
		}
		if k := (Kind{gv.WithKind(part[1]), gv.WithResource(part[2]), len(part) == 3}); is(k) {
			return k, nil
		}
	}
	return Kind{}, ErrNoKind
}

func (m *memory) Kind(_ context.Context, r schema.GroupVersionResource) (Kind, error) {
	return m.find(func(k Kind) bool { return k.Resource == r })
}

func (m *memory) Resource(_ context.Context, g schema.GroupVersionKind) (Kind, error) {
	return m.find(func(k Kind) bool { return k.Kind == g })
}

func place(k Kind, namespace, name string) string {
	if !k.Namespaced {
		namespace = ""
	}
	return k.Resource.GroupResource().String() + "/" + namespace + "/" + name
}

func (m *memory) Get(_ context.Context, k Kind, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lookups++
	if m.err != nil {
		return nil, m.err
	}
	if o, ok := m.objects[place(k, namespace, name)]; ok {
		return o.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(k.Resource.GroupResource(), name)
}

func (m *memory) Settings(context.Context) (Settings, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.settings, m.err
}

func (m *memory) Involved(_ context.Context, _, selector string) (*corev1.ObjectReference, string, error) {
	s, err := fields.ParseSelector(selector)
	if err != nil || m.err != nil {
		return nil, "", err
	}
	for _, e := range m.events {
		if s.Matches(fields.Set{
			"involvedObject.uid": string(e.UID), "involvedObject.name": e.Name, "involvedObject.namespace": e.Namespace,
			"involvedObject.kind": e.Kind, "involvedObject.apiVersion": e.APIVersion,
		}) {
			return &e, "7", nil
		}
	}
	return nil, "7", nil
}

// put adds an object, Kind/namespace/name, whose UID is "uid-" and its name, with marks: an id
// is a tracking id, key=value a label, and <Kind/name an owner.
func (m *memory) put(object string, marks ...string) {
	part := strings.Split(object, "/")
	k := m.kind(part[0])
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: part[1], Name: part[2], UID: types.UID("uid-" + part[2]), ResourceVersion: "41", Annotations: map[string]string{}, Labels: map[string]string{},
	}}
	for _, mark := range marks {
		key, value, label := strings.Cut(mark, "=")
		switch {
		case strings.HasPrefix(mark, "<"):
			kind, name, _ := strings.Cut(mark[1:], "/")
			o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{
				APIVersion: m.kind(kind).Kind.GroupVersion().String(), Kind: kind, Name: name, UID: types.UID("uid-" + name),
			})
		case label:
			o.Labels[key] = value
		default:
			o.Annotations[trackingAnnotation] = mark
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[place(k, part[1], part[2])] = o
}

func (m *memory) kind(kind string) Kind {
	k, err := m.find(func(k Kind) bool { return k.Kind.Kind == kind })
	if err != nil {
		panic(err)
	}
	return k
}

// world is the cluster of testdata/cases.txt.
func world() *memory {
	m := &memory{objects: map[string]*metav1.PartialObjectMetadata{}}
	m.put("Application/argocd/guestbook")
	m.put("Application/team/billing")
	m.put("Application/elsewhere/private")
	m.put("Deployment/shop/web", "guestbook:apps/Deployment:shop/web")
	m.put("ReplicaSet/shop/web-1", "<Deployment/web", "guestbook:apps/Deployment:shop/web")
	m.put("Pod/shop/web-1-a", "<ReplicaSet/web-1")
	m.put("Pod/shop/stray")
	m.put("Pod/shop/copied", "guestbook:apps/Deployment:shop/web")
	m.put("Pod/shop/impostor", "<ReplicaSet/web-1")
	m.objects["pods/shop/impostor"].OwnerReferences[0].UID = "of-before"
	m.put("Secret/shop/creds", "guestbook:/Secret:shop/creds")
	m.put("Secret/shop/foreign")
	m.put("Namespace//shop", "guestbook:/Namespace:shop/shop")
	m.put("CronJob/shop/nightly", "guestbook:batch/CronJob:shop/nightly")
	m.put("Rollout/shop/canary", "guestbook:argoproj.io/Rollout:shop/canary")
	m.put("ConfigMap/shop/lost", "gone:/ConfigMap:shop/lost")
	m.put("ConfigMap/shop/bill", "team_billing:/ConfigMap:shop/bill")
	m.put("ConfigMap/shop/secluded", "elsewhere_private:/ConfigMap:shop/secluded")
	m.put("ConfigMap/shop/labelled", "app.kubernetes.io/instance=guestbook")
	m.put("ClusterRole//reader", "guestbook:rbac.authorization.k8s.io/ClusterRole:shop/reader")
	m.put("ConfigMap/shop/level-1", "<Deployment/web")
	for _, n := range []string{"1", "2", "3", "4", "5"} {
		m.put("ConfigMap/shop/level-"+string(n[0]+1), "<ConfigMap/level-"+n)
	}
	m.put("ConfigMap/shop/round", "<ConfigMap/round")
	for _, e := range []string{"Pod/web-1-a", "Pod/stray"} {
		kind, name, _ := strings.Cut(e, "/")
		m.events = append(m.events, corev1.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: "shop", Name: name, UID: types.UID("uid-" + name)})
	}
	m.events = append(m.events, corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-1-a", UID: "uid-forged"})
	return m
}
