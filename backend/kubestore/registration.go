package kubestore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// ownLabels begins the labels that say of a cluster secret which agent it is of.
const ownLabels = "argocd-agent.argoproj-labs.io/"

// A Registration is what a hub's cluster says of one agent.
type Registration struct {
	backend.Agent
	Secret string            // the name of its cluster secret
	Server string            // the URL by which Argo CD knows its cluster
	Labels map[string]string // of the cluster secret, without those that make it an agent's
	Since  time.Time         // when it was registered
	// Connection is how Argo CD reaches its cluster.
	Connection Connection
	// SelfRegistered says that the agent has registered itself.
	SelfRegistered bool
}

// A Change is what is to be another in a Registration. What it does not name stays.
type Change struct {
	Labels map[string]string // are set
	Drop   []string          // labels that are taken off
	Proxy  string            // as in NewAgent; "" leaves it
	// Connection is to be that, but for what it does not tell of; nil leaves it.
	Connection *Connection
}

// Registration returns what is said of the agent of that name. One that is not registered is
// fs.ErrNotExist. If it has several cluster secrets it is the first by name, as for Agents.
func (h *Home) Registration(ctx context.Context, agent string) (Registration, error) {
	r, _, err := h.registration(ctx, agent)
	if err != nil {
		return Registration{}, fmt.Errorf("kubestore: agent %s: %w", agent, known(err))
	}
	return r, nil
}

// Registrations returns what is said of all agents, sorted by their names. Unlike a Registry it
// reads credentials. Agents whose cluster secrets cannot be read are left out: Agents reports
// them.
func (h *Home) Registrations(ctx context.Context) (all []Registration, err error) {
	o := metav1.ListOptions{LabelSelector: clusterSecrets, Limit: 500}
	for {
		list, err := h.client.Resource(secrets).Namespace(h.cfg.Namespace).List(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("kubestore: list cluster secrets in %s: %w", h.cfg.Namespace, known(err))
		}
		for _, u := range list.Items {
			var s corev1.Secret
			if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &s) != nil {
				continue
			}
			if r, err := registrationIn(s); err == nil && h.checkAgentName(r.Name) == nil {
				all = append(all, r)
			}
		}
		if o.Continue = list.GetContinue(); o.Continue == "" {
			break
		}
	}
	// Of several secrets of an agent the first counts, as for Agents.
	slices.SortFunc(all, func(a, b Registration) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Secret, b.Secret))
	})
	return slices.CompactFunc(all, func(a, b Registration) bool { return a.Name == b.Name }), nil
}

// registration returns it with the secret that it was read in.
func (h *Home) registration(ctx context.Context, agent string) (r Registration, s corev1.Secret, err error) {
	names, err := h.secretsOf(ctx, agent)
	if err != nil {
		return r, s, err
	}
	u, err := h.client.Resource(secrets).Namespace(h.cfg.Namespace).Get(ctx, names[0], metav1.GetOptions{})
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &s)
	}
	if err == nil {
		r, err = registrationIn(s)
	}
	return r, s, err
}

// registrationIn returns what a cluster secret says.
func registrationIn(s corev1.Secret) (Registration, error) {
	mode, ok := resource.ParseMode(s.Labels[AgentModeLabel])
	if !ok {
		return Registration{}, fmt.Errorf("label %s of secret %s is %q", AgentModeLabel, s.Name, s.Labels[AgentModeLabel])
	}
	r := Registration{
		Agent: backend.Agent{Name: s.Labels[AgentNameLabel], Mode: mode}, Secret: s.Name, Server: string(s.Data["server"]),
		Labels: maps.Clone(s.Labels), Since: s.CreationTimestamp.Time,
		Connection: readConnection(s.Data["config"]), SelfRegistered: s.Labels[SelfRegisteredLabel] == "true",
	}
	maps.DeleteFunc(r.Labels, func(key, _ string) bool { return reserved(key) })
	return r, nil
}

// checkLabels says which of labels are not the user's.
func checkLabels[V any](labels map[string]V) error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if reserved(key) {
			return fmt.Errorf("label %s says what the agent is, and stays", key)
		}
	}
	return nil
}

// reserved reports whether a label is not the user's.
func reserved(label string) bool {
	return label == secretTypeLabel || strings.HasPrefix(label, ownLabels)
}

// secretsOf returns the names of an agent's cluster secrets, of which there is one, sorted.
func (h *Home) secretsOf(ctx context.Context, agent string) (names []string, err error) {
	if err := h.checkAgentName(agent); err != nil {
		return nil, err
	}
	list, err := h.metadata.Resource(secrets).Namespace(h.cfg.Namespace).
		List(ctx, metav1.ListOptions{LabelSelector: clusterSecrets + "=" + agent})
	if err != nil {
		return nil, err
	}
	for _, s := range list.Items {
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: namespace %s has no cluster secret of it", fs.ErrNotExist, h.cfg.Namespace)
	}
	slices.Sort(names)
	return names, nil
}

// DeleteAgent unregisters an agent: it deletes its cluster secrets, and leaves its namespace
// and whatever is in it. One that is not registered is fs.ErrNotExist.
func (h *Home) DeleteAgent(ctx context.Context, agent string) error {
	names, err := h.secretsOf(ctx, agent)
	for _, name := range names {
		// It is gone either way.
		if gone := h.client.Resource(secrets).Namespace(h.cfg.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(gone) {
			err = errors.Join(err, gone)
		}
	}
	if err != nil {
		return fmt.Errorf("kubestore: delete agent %s: %w", agent, known(err))
	}
	return nil
}

// ChangeAgent changes what is said of an agent, and returns what is said then. The labels that
// make it an agent's, its mode among them, cannot be changed.
func (h *Home) ChangeAgent(ctx context.Context, agent string, c Change) (Registration, error) {
	fail := func(err error) (Registration, error) {
		return Registration{}, fmt.Errorf("kubestore: change agent %s: %w", agent, known(err))
	}
	labels := map[string]any{}
	for key, value := range c.Labels {
		labels[key] = value
	}
	for _, key := range c.Drop {
		labels[key] = nil
	}
	if err := checkLabels(labels); err != nil {
		return fail(err)
	}
	for {
		r, was, err := h.registration(ctx, agent)
		if err != nil {
			return fail(err)
		}
		data := map[string][]byte{"server": []byte(cmp.Or(serverOf(c.Proxy, agent), r.Server))}
		if c.Connection != nil {
			data["config"] = c.Connection.within(was.Data["config"])
		}
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": was.ResourceVersion, "labels": labels}, "data": data,
		})
		if err == nil {
			_, err = h.client.Resource(secrets).Namespace(h.cfg.Namespace).
				Patch(ctx, r.Secret, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
		}
		switch {
		case err == nil:
			return h.Registration(ctx, agent)
		case !apierrors.IsConflict(err): // else whoever was faster has changed it: look again
			return fail(err)
		}
	}
}

// serverOf returns the URL by which Argo CD knows an agent's cluster, "" if there is no proxy.
func serverOf(proxy, agent string) string {
	if proxy == "" {
		return ""
	}
	return "https://" + proxy + "?agentName=" + agent
}
