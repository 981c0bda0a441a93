// Package status answers requests of the Kubernetes API that end before they have reached an
// API server, as that would: by an object of the kind Status.
package status

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Write answers with a failure: an HTTP code, the reason for programs, and a message for
// people, who are shown nothing else. It must be the first that is said on w.
//
// A retryAfter above zero tells in how long another attempt may succeed: rounded up to seconds
// in the object's details, and in the header Retry-After as a date. A number there would have
// every client of client-go try again by itself, up to ten times, and its user wait for an
// answer that is known at once.
func Write(w http.ResponseWriter, code int, reason metav1.StatusReason, message string, retryAfter time.Duration) {
	s := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Message:  message,
		Reason:   reason,
		Code:     int32(code),
	}
	h := w.Header()
	if retryAfter > 0 {
		seconds := (retryAfter + time.Second - 1) / time.Second
		s.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(seconds)}
		h.Set("Retry-After", time.Now().Add(retryAfter).UTC().Format(http.TimeFormat))
	}
	body, err := json.Marshal(s)
	if err != nil { // of plain texts and numbers: it cannot be
		http.Error(w, message, code)
		return
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-cache, private")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(body) // who does not hear it is gone
}
