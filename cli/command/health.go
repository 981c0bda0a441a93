package command

import (
	"fmt"
	"net/http"
	"sync/atomic"
)

// health serves what a kubelet asks of a program:
//
//	/livez     200: the process answers; nothing that a restart would not mend makes it fail
//	/readyz    200, or 503 and why it is not ready
//	/startupz  503 and why until it has been ready once, and 200 from then on: all that there was
//	           has been listed, and the store of the transport is open
//
// A peer that is away is no reason for any of them.
func health(ready func() error) http.Handler {
	var started atomic.Bool
	is := func() error {
		err := ready()
		if err == nil {
			started.Store(true)
		}
		return err
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
