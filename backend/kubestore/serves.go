package kubestore

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

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
