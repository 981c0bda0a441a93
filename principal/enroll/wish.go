package enroll

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// maxLabels is how many labels an agent may wish for.
const maxLabels = 16

// A Wish is what an agent wants to be registered as.
type Wish struct {
	Mode   resource.Mode
	Labels map[string]string // of its cluster, as Kubernetes has them
}

// Text returns the Wish as ParseWish reads it: the query of a URL. What is too long to be said
// (transport.MaxSaid) or what ParseWish would refuse is an error.
func (w Wish) Text() (string, error) {
	v := url.Values{"mode": {w.Mode.String()}}
	for _, key := range slices.Sorted(maps.Keys(w.Labels)) {
		v.Add("label", key+"="+w.Labels[key])
	}
	text := v.Encode()
	_, err := ParseWish(text)
	return text, err
}

// ParseWish reads a Wish. What a later version may say besides is left out.
func ParseWish(text string) (w Wish, err error) {
	fail := func(err error) (Wish, error) { return Wish{}, fmt.Errorf("enroll: %w", err) }
	if len(text) > transport.MaxSaid {
		return fail(fmt.Errorf("a wish of %d bytes is longer than %d", len(text), transport.MaxSaid))
	}
	v, err := url.ParseQuery(text)
	if err != nil {
		return fail(errors.New("a wish cannot be read"))
	}
	mode, ok := resource.ParseMode(v.Get("mode"))
	if !ok {
		return fail(fmt.Errorf("mode %.20q is neither managed nor autonomous", v.Get("mode")))
	}
	w.Mode = mode
	if w.Labels, err = ParseLabels(v["label"]); err != nil {
		return Wish{}, err
	}
	return w, nil
}

// ParseLabels reads labels, each as key=value.
func ParseLabels(texts []string) (map[string]string, error) {
	if len(texts) > maxLabels {
		return nil, fmt.Errorf("enroll: there are %d labels, above %d", len(texts), maxLabels)
	}
	labels := map[string]string{}
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		bad := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
		switch _, again := labels[key]; {
		case !ok:
			return nil, fmt.Errorf("enroll: %.80q is no label: write key=value", text)
		case len(bad) > 0:
			return nil, fmt.Errorf("enroll: label %.80q: %s", text, bad[0])
		case again:
			return nil, fmt.Errorf("enroll: label %.80q is there twice", key)
		}
		labels[key] = value
	}
	return labels, nil
}
