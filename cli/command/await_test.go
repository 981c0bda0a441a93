package command

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/client-go/rest"

	"github.com/argocd-fabric/argocd-agent/backend/kubestore"
)

// A program whose API server does not answer says so within seconds, and goes on when it does, however
// late that is.
func TestAProgramWaitsForItsAPIServer(t *testing.T) {
	refuses := func(context.Context) error { return errors.New("connection refused") }
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		answers func(context.Context) error
		first   time.Duration // when the log says it
		says    string
		lines   int // in ten minutes
	}{
		"it refuses": {refuses, 0, "connection refused", 21},
		"it hangs":   {hangs, firstTry, "it has not answered within 3s", 21},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, log := observer.New(zap.InfoLevel)
				began, up := time.Now(), make(chan struct{})
				w := &wait{says: "waiting for the API server", log: zap.New(core), answers: func(ctx context.Context) error {
					select {
					case <-up:
						return nil
					default:
						return c.answers(ctx)
					}
				}}
				require.EqualError(t, w.ready(), "waiting for the API server")
				done := make(chan error, 1)
				go func() { done <- w.run(t.Context()) }()
				<-time.After(c.first)
				synctest.Wait()
				require.Equal(t, 1, log.Len(), "within seconds")
				require.Equal(t, c.says, log.All()[0].ContextMap()["error"])
				require.EqualError(t, w.ready(), "waiting for the API server: "+c.says)
				<-time.After(10*time.Minute - time.Since(began))
				synctest.Wait()
				require.LessOrEqual(t, log.Len(), c.lines, "and not too often")
				close(up)
				require.NoError(t, <-done)
				require.LessOrEqual(t, time.Since(began), 10*time.Minute+longestTry+longestPause)
				require.Equal(t, "there is an answer", log.All()[log.Len()-1].Message)
			})
		})
	}
}

// What an API server answers is an answer, unless it says that it cannot now.
func TestWhichAnswersAreWaitedFor(t *testing.T) {
	for code, waited := range map[int]bool{
		http.StatusOK: false, http.StatusUnauthorized: false, http.StatusForbidden: false, http.StatusNotFound: false,
		http.StatusTooManyRequests: true, http.StatusInternalServerError: true, http.StatusServiceUnavailable: true, http.StatusGatewayTimeout: true,
	} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				require.Equal(t, "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications", r.URL.Path)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				_, err := w.Write([]byte(`{"kind": "ApplicationList", "apiVersion": "argoproj.io/v1alpha1", "items": []}`))
				require.NoError(t, err)
			}))
			defer s.Close()
			home, err := kubestore.NewHome(kubestore.HomeConfig{REST: &rest.Config{Host: s.URL}, Namespace: "argocd", Log: zap.NewNop()})
			require.NoError(t, err)
			err = home.Answers(t.Context())
			require.Equal(t, waited, err != nil, "%v", err)
		})
	}
}
