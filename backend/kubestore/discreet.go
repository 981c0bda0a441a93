package kubestore

import (
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// discreet returns err as it may be told where an object of that kind was written. What the
// API server, or a policy or webhook of it, says of an object may quote it: of one that is
// secret only the reason is told, and the fields that are named.
func discreet(kind resource.Kind, err error) error {
	var status apierrors.APIStatus
	if !kind.Sealed() || !errors.As(err, &status) {
		return err
	}
	return veiled{err, outline(err, status)}
}

// A veiled error is one whose text is another.
type veiled struct {
	error
	text string
}

// Error returns the text that may be told.
func (v veiled) Error() string { return v.text }

// Unwrap returns the error.
func (v veiled) Unwrap() error { return v.error }

func outline(err error, of apierrors.APIStatus) string {
	s := of.Status()
	text := "the API server answers " + string(apierrors.ReasonForError(err))
	if s.Reason == "" {
		text = "the API server refuses it"
	}
	if errors.Is(err, backend.ErrRefused) {
		text = backend.ErrRefused.Error() + ": " + text
	}
	var fields []string
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			if plainField(c.Field) && !slices.Contains(fields, c.Field) {
				fields = append(fields, c.Field)
			}
		}
	}
	if len(fields) > 0 {
		text += " for " + strings.Join(fields, ", ")
	}
	return text + "; its words may quote what is secret, and are left out"
}

// plainField reports whether a field's name is one of the API, and not of what is in data.
func plainField(name string) bool {
	return strings.HasPrefix(name, "metadata.") || name == "type" || name == "data" || name == "immutable"
}
