package kubestore

import (
	"context"
	"fmt"
	"net/http"

	"go.uber.org/zap"
	"k8s.io/client-go/rest"
)

// A connection is what every client of one API server shares.
type connection struct {
	rest *rest.Config
	http *http.Client
}

// connect prepares clients. It does not reach out.
func connect(cfg *rest.Config, log *zap.Logger) (connection, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.WarningHandlerWithContext = warnings{log}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return newThrottle(next, log) })
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return connection{}, fmt.Errorf("kubestore: %w", err)
	}
	return connection{cfg, client}, nil
}

// warnings of the API server are for those who look for them.
type warnings struct{ log *zap.Logger }

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w warnings) HandleWarningHeaderWithContext(_ context.Context, code int, _ string, text string) {
	if code == 299 { // the one that the API server uses
		w.log.Debug("the API server warns", zap.String("text", text))
	}
}
