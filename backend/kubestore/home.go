package kubestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/kubeapis"
)

var (
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	spaces     = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// HomeConfig is what a Home is made of.
type HomeConfig struct {
	REST      *rest.Config // how to reach the API server
	Namespace string       // where Argo CD and the program are
	// Timeout is how long the API server may take to answer; 0 is 30 s.
	Timeout time.Duration
	Log     *zap.Logger
}

// A Home is the namespace of a program, and what the program keeps there beside the
// objects of a Store: on a hub its identity and its agents, and certificates on both
// sides. Errors wrap fs.ErrNotExist and fs.ErrExist where an object lacks or is there, and
// fs.ErrPermission where the API server says that the program may not.
type Home struct {
	cfg      HomeConfig
	client   dynamic.Interface
	watcher  dynamic.Interface // without end
	metadata metadata.Interface
	apis     *kubeapis.Client

	mu     sync.Mutex
	follow map[*follower]bool // what is followed now
}

var _ backend.Remote = (*Home)(nil)

// NewHome returns a Home. It does not reach out.
func NewHome(cfg HomeConfig) (*Home, error) {
	if cfg.REST == nil || cfg.Log == nil || cfg.Namespace == "" {
		return nil, errors.New("kubestore: REST, Namespace and Log must be set")
	}
	c, err := connect(cfg.REST, cfg.Log)
	if err != nil {
		return nil, err
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, requestTime)
	limited := *c.http // watches have no end
	limited.Timeout = cfg.Timeout
	client, err := dynamic.NewForConfigAndClient(c.rest, &limited)
	if err != nil {
		return nil, fmt.Errorf("kubestore: %w", err)
	}
	watcher, err := dynamic.NewForConfigAndClient(c.rest, c.http)
	if err != nil {
		return nil, fmt.Errorf("kubestore: %w", err)
	}
	meta, err := metadata.NewForConfigAndClient(c.rest, c.http)
	if err != nil {
		return nil, fmt.Errorf("kubestore: %w", err)
	}
	serves, err := kubeapis.New(c.rest, &limited)
	if err != nil {
		return nil, fmt.Errorf("kubestore: %w", err)
	}
	return &Home{cfg: cfg, client: client, watcher: watcher, metadata: meta, apis: serves, follow: map[*follower]bool{}}, nil
}

// Away implements backend.Remote: it is since when the agents or the blocklist have not been followed, by
// whoever watches them.
func (h *Home) Away() (since time.Time, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all backend.Remotes
	for f := range h.follow {
		all = append(all, f)
	}
	return all.Away()
}

// following takes note that something is followed, until what it returns is called.
func (h *Home) following(f *follower) (no func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.follow[f] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.follow, f)
	}
}

// Identity returns the hub's stable identity, which is made once: however many ask for it
// at the same time, all are told the same.
func (h *Home) Identity(ctx context.Context) (string, error) {
	const name, key = "argocd-agent-principal-identity", "principal-uid"
	maps := h.client.Resource(configMaps).Namespace(h.cfg.Namespace)
	for {
		u, err := maps.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = maps.Create(ctx, object(&corev1.ConfigMap{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: h.cfg.Namespace},
				Data:       map[string]string{key: string(uuid.NewUUID())},
			}), metav1.CreateOptions{FieldManager: FieldManager})
		case err == nil:
			if uid, _, _ := unstructured.NestedString(u.Object, "data", key); uid != "" {
				return uid, nil
			}
			patch := fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"data":{%q:%q}}`, u.GetResourceVersion(), key, uuid.NewUUID())
			_, err = maps.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: FieldManager})
		}
		// Whoever was faster has made it: look again.
		if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
			return "", fmt.Errorf("kubestore: identity in configmap %s/%s: %w", h.cfg.Namespace, name, err)
		}
	}
}

// TLS is a certificate, its key, and the certificates of the authorities to be trusted,
// each as PEM.
type TLS struct {
	Certificate []byte
	Key         []byte
	CA          []byte
}

// TLS reads a Secret of type kubernetes.io/tls.
func (h *Home) TLS(ctx context.Context, name string) (TLS, error) {
	u, err := h.client.Resource(secrets).Namespace(h.cfg.Namespace).Get(ctx, name, metav1.GetOptions{})
	var s corev1.Secret
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &s)
	}
	if err != nil {
		return TLS{}, h.fail("read", name, err)
	}
	t := TLS{Certificate: s.Data[corev1.TLSCertKey], Key: s.Data[corev1.TLSPrivateKeyKey], CA: s.Data[corev1.ServiceAccountRootCAKey]}
	if len(t.Certificate) == 0 || len(t.Key) == 0 {
		return TLS{}, h.fail("read", name, errors.New("it lacks tls.crt or tls.key"))
	}
	return t, nil
}

// CreateTLS makes a Secret of type kubernetes.io/tls, which must not be there.
func (h *Home) CreateTLS(ctx context.Context, name string, t TLS) error {
	_, err := h.client.Resource(secrets).Namespace(h.cfg.Namespace).
		Create(ctx, h.secret(name, t), metav1.CreateOptions{FieldManager: FieldManager})
	if err != nil {
		return h.fail("create", name, err)
	}
	return nil
}

// PutTLS makes a Secret of type kubernetes.io/tls, or replaces what is in it.
func (h *Home) PutTLS(ctx context.Context, name string, t TLS) error {
	_, err := h.client.Resource(secrets).Namespace(h.cfg.Namespace).
		Apply(ctx, name, h.secret(name, t), metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	if err != nil {
		return h.fail("write", name, err)
	}
	return nil
}

func (h *Home) secret(name string, t TLS) *unstructured.Unstructured {
	data := map[string][]byte{corev1.TLSCertKey: t.Certificate, corev1.TLSPrivateKeyKey: t.Key}
	if len(t.CA) > 0 {
		data[corev1.ServiceAccountRootCAKey] = t.CA
	}
	return object(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: h.cfg.Namespace},
		Type:       corev1.SecretTypeTLS,
		Data:       data,
	})
}

func (h *Home) fail(act, secret string, err error) error {
	return fmt.Errorf("kubestore: %s secret %s/%s: %w", act, h.cfg.Namespace, secret, known(err))
}

// known wraps the errors that a caller may want to tell apart without knowing Kubernetes.
func known(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: %w", fs.ErrExist, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: %w", fs.ErrPermission, err)
	}
	return err
}

// object converts an object that this package has made, which cannot fail.
func object(typed any) *unstructured.Unstructured {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		panic("kubestore: convert: " + err.Error())
	}
	unstructured.RemoveNestedField(m, "metadata", "creationTimestamp")
	return &unstructured.Unstructured{Object: m}
}
