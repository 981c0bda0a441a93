package status_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/argocd-fabric/argocd-agent/proxy/kubeapi/status"
)

// ask has a client of Kubernetes ask a server that answers by status.Write.
func ask(t *testing.T, code int, reason metav1.StatusReason, message string, retryAfter time.Duration) (err error, asked int, header http.Header) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		status.Write(w, code, reason, message, retryAfter)
		header = w.Header().Clone()
	}))
	defer s.Close()
	c, err := rest.RESTClientFor(&rest.Config{Host: s.URL, APIPath: "/api", ContentConfig: rest.ContentConfig{
		GroupVersion: &schema.GroupVersion{Version: "v1"}, NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
	}})
	require.NoError(t, err)
	err = c.Get().Resource("pods").Do(t.Context()).Error()
	return err, asked, header
}

func TestWriteIsReadAsAnAPIServersAnswer(t *testing.T) {
	err, _, header := ask(t, http.StatusForbidden, metav1.StatusReasonForbidden, `"no" is said`, 0)
	require.True(t, apierrors.IsForbidden(err), err)
	require.EqualError(t, err, `"no" is said`)
	require.Empty(t, header.Get("Retry-After"))
}

// Who asks is to hear at once that it is of no use now, and when it will be.
func TestWriteSaysWhenWithoutHavingClientsWait(t *testing.T) {
	err, asked, header := ask(t, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "away", 1500*time.Millisecond)
	require.True(t, apierrors.IsServiceUnavailable(err), err)
	seconds, is := apierrors.SuggestsClientDelay(err)
	require.True(t, is)
	require.Equal(t, 2, seconds)
	at, err := http.ParseTime(header.Get("Retry-After"))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), at, time.Minute)
	require.Equal(t, 1, asked)
}
