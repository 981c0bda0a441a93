package grpclink

import (
	"errors"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/argocd-fabric/argocd-agent/transport"
)

// A refusal says why an agent is not let in, or not any more, and when it may come again.
type refusal struct {
	code  codes.Code
	why   string
	after time.Duration // 0 leaves it to the agent
	quiet bool          // nobody needs to be told
}

// Error implements error.
func (r *refusal) Error() string { return r.why }

// GRPCStatus has a call end with what the agent is to know.
func (r *refusal) GRPCStatus() *status.Status {
	s := status.New(r.code, r.why)
	if r.after > 0 {
		if with, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(r.after)}); err == nil {
			return with
		}
	}
	return s
}

func unproven(err error) error { return &refusal{code: codes.Unauthenticated, why: err.Error()} }
func unregistered() error {
	return &refusal{code: codes.PermissionDenied, why: transport.ErrUnknown.Error()}
}
func excessive(err error) error {
	return &refusal{code: codes.FailedPrecondition, why: err.Error(), after: roomAgain}
}
func malformed(err error) error { return &refusal{code: codes.InvalidArgument, why: err.Error()} }
func unserved(why string) error { return &refusal{code: codes.Unavailable, why: why, quiet: true} }
func replaced(from string) error {
	return &refusal{code: codes.Aborted, why: "another session of this agent has begun, from " + from}
}

func unlisted() error {
	return &refusal{code: codes.Unavailable, why: "the principal does not know yet which agents there are", after: comeAgain, quiet: true}
}

func crowded(after time.Duration) error {
	return &refusal{code: codes.ResourceExhausted, why: "too much connects at once", after: after, quiet: true}
}

// roomAgain is when an agent may try again whose table is too large.
const roomAgain = time.Minute

// statusOf returns the end of a session as the agent is to see it.
func statusOf(err error) error {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	return status.Error(codes.Unavailable, err.Error())
}

// retryAfter returns how long the principal has asked to wait; 0 if it has not.
func retryAfter(err error) time.Duration {
	for _, d := range status.Convert(err).Details() {
		if r, ok := d.(*errdetails.RetryInfo); ok {
			return min(max(r.GetRetryDelay().AsDuration(), 0), maxRetryAfter)
		}
	}
	return 0
}

// maxRetryAfter bounds what a principal may ask for.
const maxRetryAfter = 10 * time.Minute

// What is tried again and again is logged once for each reason in this time; maxReasons bounds
// how many are remembered.
const (
	tellAgain  = time.Minute
	maxReasons = 1000
)

// A teller knows what the log has been told of.
type teller struct {
	mu   sync.Mutex
	told map[string]time.Time
}

// news reports whether the log is to be told of something now.
func (t *teller) news(what string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.told[what]; ok && now.Sub(last) < tellAgain {
		return false
	}
	if t.told == nil || len(t.told) >= maxReasons {
		t.told = map[string]time.Time{}
	}
	t.told[what] = now
	return true
}
