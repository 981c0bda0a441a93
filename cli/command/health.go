package command

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/argocd-fabric/argocd-agent/backend"
)

// health serves what a kubelet asks of a program:
//
//	/livez     200: the process answers; nothing that a restart would not mend makes it fail
//	/readyz    200, or 503 and the first reason why it is not ready
//	/startupz  503 and why until it has been ready once, and 200 from then on: all that there was
//	           has been listed, and the store of the transport is open
//
// A peer that is away is no reason for any of them. Whoever is not ready goes on with what it knows, and
// nobody is to be kept from it: see publishNotReadyAddresses in deploy/.
func health(ready ...func() error) http.Handler {
	var started atomic.Bool
	is := func() error {
		for _, reason := range ready {
			if err := reason(); err != nil {
				return err
			}
		}
		started.Store(true)
		return nil
	}
	mux := http.NewServeMux()
	for path, ask := range map[string]func() error{
		"GET /livez":  func() error { return nil },
		"GET /readyz": is,
		"GET /startupz": func() error {
			if started.Load() {
				return nil
			}
			return is()
		},
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if err := ask(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "ok")
		})
	}
	return mux
}

// because returns what says why a program is not ready, and, where its backend is away, that too: for then
// that is why.
func because(ready func() error, remote backend.Remote) func() error {
	return func() error {
		err := ready()
		if err == nil || remote == nil {
			return err
		}
		if since, why := remote.Away(); !since.IsZero() {
			return fmt.Errorf("%w; the backend cannot be followed: %w", err, why)
		}
		return err
	}
}

// within returns what says that a backend has been away for longer than patience; clock says when now is.
// A nil one, which is in this process, never is.
func within(patience time.Duration, remote backend.Remote, clock func() time.Time) func() error {
	return func() error {
		if remote == nil {
			return nil
		}
		since, why := remote.Away()
		if away := clock().Sub(since); !since.IsZero() && away > patience {
			return fmt.Errorf("the backend cannot be followed, for %v now, and what is known of it may be old: %w", away.Round(time.Second), why)
		}
		return nil
	}
}
