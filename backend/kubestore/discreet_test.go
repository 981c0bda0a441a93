package kubestore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// TestWhatASecretIsRefusedForDoesNotQuoteIt: the API server quotes what it refuses.
func TestWhatASecretIsRefusedForDoesNotQuoteIt(t *testing.T) {
	s, _, ns := spokeStore(t)
	bad := map[string]string{secretTypeLabel: "repository", "team": "hunter2 is no label"}
	_, err := s.Write(t.Context(), at(resource.Project, ns, "project", `{}`, bad))
	require.ErrorIs(t, err, backend.ErrRefused)
	require.ErrorContains(t, err, "hunter2", "of what is no secret all is told")

	for name, o := range map[string]resource.Object{
		"a label":     at(resource.Secret, ns, "repository", `{"password":"aHVudGVyMg=="}`, bad),
		"a key":       at(resource.Secret, ns, "repository", `{"hunter2 is no key":"eA=="}`, isRepository),
		"a value":     at(resource.Secret, ns, "repository", `{"password":"hunter2 is no base64"}`, isRepository),
		"not a text":  at(resource.Secret, ns, "repository", `{"password":{"hunter2":1}}`, isRepository),
		"not a table": at(resource.Secret, ns, "repository", `"hunter2"`, isRepository),
	} {
		_, err := s.Write(t.Context(), o)
		require.ErrorIs(t, err, backend.ErrRefused, name)
		require.ErrorContains(t, err, "repository", name)
		require.NotContains(t, err.Error(), "hunter2", name)
		t.Log(name, err)
	}
}

func TestWhatIsLeftOfAnErrorAboutASecret(t *testing.T) {
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonForbidden, Message: `webhook: "hunter2" is weak`}}
	err := discreet(resource.Secret, fmt.Errorf("twice: %w: %w", denied, denied))
	require.NotContains(t, err.Error(), "hunter2")
	require.Contains(t, err.Error(), "Forbidden")
	require.True(t, apierrors.IsForbidden(err), "it is the same error")
	require.NotContains(t, fmt.Sprintf("%v %+v %s %q", err, err, err, err), "hunter2")
	for _, same := range []error{nil, errors.New("no route to host")} {
		require.Equal(t, same, discreet(resource.Secret, same))
	}
	require.Equal(t, error(denied), discreet(resource.Application, denied))
}
