package command

import (
	"fmt"
	"net/http"
)

// health serves what a kubelet asks of a program:
//
//	/livez   200: the process answers; nothing that a restart would not mend makes it fail
//	/readyz  200, or 503 and why it is not ready
//
// A peer that is away is no reason for either.
func health(ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}
