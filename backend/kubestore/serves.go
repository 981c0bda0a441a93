package kubestore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Answers asks the API server for what every program has to see, and returns why there is no answer. That
// it does not serve that, or that the program may not see it, is one.
func (h *Home) Answers(ctx context.Context) error {
	client := h.client.Resource(layouts[resource.Application].resource).Namespace(h.cfg.Namespace)
	_, err := client.List(logTo(ctx, h.cfg.Log), metav1.ListOptions{Limit: 1})
	var status apierrors.APIStatus
	if err == nil || errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError && !apierrors.IsTooManyRequests(err) {
		return nil
	}
	return fmt.Errorf("kubestore: ask the API server: %w", err)
}

// Served is what an API server says of itself: whoever it knows may ask.
type Served struct {
	Version string // such as "1.34"
	// APIs lists what it serves, sorted, as Argo CD has it: "apps/v1" and
	// "apps/v1/Deployment".
	APIs []string
	// Kinds counts what can be listed and watched.
	Kinds int
}

// Served asks the API server what it serves. Groups that do not answer are left out.
func (h *Home) Served(ctx context.Context) (s Served, err error) {
	version, err := h.apis.Version(ctx)
	if err != nil {
		return s, fmt.Errorf("kubestore: version of the API server: %w", err)
	}
	s.Version = version.Major + "." + version.Minor
	lists, err := h.apis.All(ctx)
	if err != nil {
		return s, fmt.Errorf("kubestore: what the API server serves: %w", err)
	}
	kinds := map[string]bool{}
	for _, l := range lists {
		s.APIs = append(s.APIs, l.GroupVersion)
		group, _, named := strings.Cut(l.GroupVersion, "/")
		if !named {
			group = "" // the oldest, which is called by its version only
		}
		for _, r := range l.APIResources {
			if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch") {
				s.APIs = append(s.APIs, l.GroupVersion+"/"+r.Kind)
				kinds[group+"/"+r.Kind] = true
			}
		}
	}
	slices.Sort(s.APIs)
	s.APIs, s.Kinds = slices.Compact(s.APIs), len(kinds)
	return s, nil
}
