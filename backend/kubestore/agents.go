package kubestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

const (
	// AgentModeLabel, on a cluster secret, holds the mode of its agent.
	AgentModeLabel = "argocd-agent.argoproj-labs.io/agent-mode"

	// SelfRegisteredLabel, on a cluster secret, is "true" if its agent has registered itself.
	SelfRegisteredLabel = "argocd-agent.argoproj-labs.io/self-registered-cluster"

	secretTypeLabel = "argocd.argoproj.io/secret-type"
	clusterSecrets  = secretTypeLabel + "=cluster," + AgentNameLabel
	skipReconcile   = "argocd.argoproj.io/skip-reconcile"
)

// A NewAgent is an agent that is to be registered.
type NewAgent struct {
	backend.Agent
	// Proxy is the address (host and port) under which the hub's Argo CD reaches the
	// principal's resource proxy.
	Proxy string
	// Connection is how.
	Connection Connection
	// Labels are the user's, of the cluster secret.
	Labels map[string]string
	// SelfRegistered says that the agent has asked for it, and marks the cluster secret so.
	SelfRegistered bool
	// AdoptNamespace takes a namespace of the agent's name that is there already and that
	// is not labelled as an agent's.
	AdoptNamespace bool
}

// CreateAgent registers an agent: it makes and labels its namespace, and then its cluster
// secret. What was done before an error stays, and does not stop another attempt. An agent
// that is registered already is fs.ErrExist.
func (h *Home) CreateAgent(ctx context.Context, a NewAgent) error {
	err := h.checkAgentName(a.Name)
	if err == nil {
		err = checkLabels(a.Labels)
	}
	if err == nil {
		err = h.createNamespace(ctx, a)
	}
	if err == nil {
		_, err = h.client.Resource(secrets).Namespace(h.cfg.Namespace).
			Create(ctx, object(h.clusterSecret(a)), metav1.CreateOptions{FieldManager: FieldManager})
	}
	if err != nil {
		return fmt.Errorf("kubestore: create agent %s: %w", a.Name, known(err))
	}
	return nil
}

// checkAgentName says why an agent cannot have a name, which is that of a namespace, too.
func (h *Home) checkAgentName(name string) error {
	if bad := validation.IsDNS1123Label(name); len(bad) > 0 {
		return fmt.Errorf("%q is no name for an agent: %s", name, bad[0])
	}
	if name == h.cfg.Namespace || name == "default" || name == "argocd" || strings.HasPrefix(name, "kube-") {
		return fmt.Errorf("%q is no name for an agent: its namespace has another use", name)
	}
	return nil
}

func (h *Home) createNamespace(ctx context.Context, a NewAgent) error {
	client := h.client.Resource(spaces)
	_, err := client.Create(ctx, object(&corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: a.Name, Labels: map[string]string{AgentNameLabel: a.Name}},
	}), metav1.CreateOptions{FieldManager: FieldManager})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there, err := client.Get(ctx, a.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	switch label := there.GetLabels()[AgentNameLabel]; {
	case label == a.Name:
		return nil
	case label != "":
		return fmt.Errorf("namespace %s is that of agent %s", a.Name, label)
	case !a.AdoptNamespace:
		return fmt.Errorf("namespace %s is there already, and is no agent's", a.Name)
	}
	patch := fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"labels":{%q:%q}}}`, there.GetResourceVersion(), AgentNameLabel, a.Name)
	_, err = client.Patch(ctx, a.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: FieldManager})
	return err
}

func (h *Home) clusterSecret(a NewAgent) *corev1.Secret {
	labels := map[string]string{}
	maps.Copy(labels, a.Labels)
	labels[secretTypeLabel] = "cluster"
	labels[AgentNameLabel] = a.Name
	labels[AgentModeLabel] = a.Mode.String()
	if a.SelfRegistered {
		labels[SelfRegisteredLabel] = "true"
	}
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        "cluster-" + a.Name,
			Namespace:   h.cfg.Namespace,
			Labels:      labels,
			Annotations: map[string]string{skipReconcile: "true"},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			"name":   []byte(a.Name),
			"server": []byte(serverOf(a.Proxy, a.Name)),
			"config": a.Connection.within(nil),
		},
	}
}

// Agents returns the registered agents, sorted by name. Those whose cluster secret
// cannot be read are left out, and reported in the error beside the others.
func (h *Home) Agents(ctx context.Context) ([]backend.Agent, error) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.Timeout)
	defer cancel()
	list, err := h.metadata.Resource(secrets).Namespace(h.cfg.Namespace).
		List(ctx, metav1.ListOptions{LabelSelector: clusterSecrets})
	if err != nil {
		return nil, fmt.Errorf("kubestore: list cluster secrets in %s: %w", h.cfg.Namespace, err)
	}
	var entries []entry
	for _, s := range list.Items {
		entries = append(entries, entry{s.Name, s.Labels})
	}
	agents, bad := h.read(entries)
	var errs []error
	for _, err := range bad {
		errs = append(errs, err)
	}
	return agents, errors.Join(errs...)
}

// An entry is a cluster secret as far as it names an agent.
type entry struct {
	secret string
	labels map[string]string
}

// read returns the agents that entries name, sorted by name, and what is wrong with the
// others, by secret.
func (h *Home) read(entries []entry) ([]backend.Agent, map[string]error) {
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.secret, b.secret) })
	var agents []backend.Agent
	bad := map[string]error{}
	for _, e := range entries {
		a := backend.Agent{Name: e.labels[AgentNameLabel]}
		mode, ok := resource.ParseMode(e.labels[AgentModeLabel])
		a.Mode = mode
		err := h.checkAgentName(a.Name)
		switch {
		case err != nil:
		case !ok:
			err = fmt.Errorf("label %s is %q", AgentModeLabel, e.labels[AgentModeLabel])
		case slices.ContainsFunc(agents, func(b backend.Agent) bool { return a.Name == b.Name }):
			err = fmt.Errorf("agent %s has another cluster secret", a.Name)
		}
		if err != nil {
			bad[e.secret] = fmt.Errorf("kubestore: cluster secret %s/%s: %w", h.cfg.Namespace, e.secret, err)
			continue
		}
		agents = append(agents, a)
	}
	slices.SortFunc(agents, func(a, b backend.Agent) int { return cmp.Compare(a.Name, b.Name) })
	return agents, bad
}
