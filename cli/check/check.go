// Package check walks the stages of a connection one after the other, and says of each what was
// seen; of the first that fails also what to do. It knows no stage itself.
package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
)

// A Stage is one of the things that must be so for a connection to work.
type Stage struct {
	Name string
	// Try finds out whether it is so, and returns what was seen. Its error may be Skipped, or
	// a *Failure that says what to do.
	Try func(ctx context.Context) (seen string, err error)
}

// Skipped is why a stage has nothing to try.
type Skipped string

// Error implements error.
func (s Skipped) Error() string { return string(s) }

// A Failure is what was seen that should not be, and what to do about it.
type Failure struct {
	Err    error
	Advice string // in the imperative
}

// Error returns both in one line.
func (f *Failure) Error() string { return f.Err.Error() + "; " + f.Advice }

// Unwrap returns what was seen.
func (f *Failure) Unwrap() error { return f.Err }

// An Outcome is how a stage has ended.
type Outcome string

// The outcomes.
const (
	OK       Outcome = "ok"
	Failed   Outcome = "failed"
	NotTried Outcome = "skipped"
)

const pending = "a stage before it has failed"

// A Report says how one stage has ended.
type Report struct {
	Stage   string  `json:"stage"`
	Outcome Outcome `json:"outcome"`
	Seen    string  `json:"seen,omitempty"`   // or why it was skipped
	Advice  string  `json:"advice,omitempty"` // of one that has failed: what to do
}

// Walk tries stages in order, each for so long at most, and returns how they ended. What comes
// after the first failure is skipped, and the failure is returned too.
func Walk(ctx context.Context, stages []Stage, each time.Duration) (reports []Report, failed error) {
	for _, s := range stages {
		if failed != nil {
			reports = append(reports, Report{Stage: s.Name, Outcome: NotTried, Seen: pending})
			continue
		}
		r, err := try(ctx, s, each)
		if reports = append(reports, r); err != nil {
			failed = fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return reports, failed
}

func try(ctx context.Context, s Stage, each time.Duration) (Report, error) {
	late := fmt.Errorf("nothing has come of it in %v", each)
	ctx, cancel := context.WithTimeoutCause(ctx, each, late)
	defer cancel()
	seen, err := s.Try(ctx)
	r, skipped, failure := Report{Stage: s.Name, Outcome: OK, Seen: seen}, Skipped(""), (*Failure)(nil)
	switch {
	case err == nil:
		return r, nil
	case errors.As(err, &skipped):
		r.Outcome, r.Seen = NotTried, string(skipped)
		return r, nil
	case errors.As(err, &failure):
		r.Outcome, r.Seen, r.Advice = Failed, failure.Err.Error(), failure.Advice
	default:
		r.Outcome, r.Seen = Failed, err.Error()
	}
	return r, err
}

// Table writes reports for people.
func Table(w io.Writer, reports []Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "STAGE\tOUTCOME\tSEEN")
	for _, r := range reports {
		fmt.Fprintf(t, "%s\t%s\t%s\n", r.Stage, r.Outcome, shell.Line(r.Seen))
	}
	return t.Flush()
}
