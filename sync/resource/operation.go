package resource

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// OperationID names one request to run operation (its canonical JSON) on the object
// whose original is uid, made at startedAt. It can be checked against the operation, see
// OperationNamed, so that it survives a crash between being made and being sent.
func OperationID(uid string, startedAt time.Time, operation string) string {
	at := strconv.FormatInt(startedAt.UnixNano(), 10)
	return at + "-" + string(Sum(uid, at, operation))
}

// OperationNamed reports whether id names a request to run operation on uid, and when it
// was made.
func OperationNamed(id, uid, operation string) (startedAt time.Time, ok bool) {
	at, _, _ := strings.Cut(id, "-")
	n, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	startedAt = time.Unix(0, n).UTC()
	return startedAt, id == OperationID(uid, startedAt, operation)
}

// SyncOperation returns the request to sync an Application of this spec, as Argo CD's own
// automatic sync makes it, but that nothing is pruned: by is told to have initiated it.
func SyncOperation(spec, by string) string {
	policy, _ := decodeObject(spec)["syncPolicy"].(map[string]any)
	sync := map[string]any{}
	if options := policy["syncOptions"]; options != nil {
		sync["syncOptions"] = options
	}
	op := map[string]any{"initiatedBy": map[string]any{"automated": true, "username": by}, "sync": sync}
	if again := policy["retry"]; again != nil {
		op["retry"] = again
	}
	return Canonical(op)
}

// separator stands before the id of each request that was taken back.
const separator = "!"

// Requests are those that a principal's object remembers in its OpID.
type Requests struct {
	ID string // of the one that stands, "" if there is none
	// Back names those that were taken back since the agent said last which one it knows, the
	// last one last. It is bounded.
	Back []string
}

// ParseRequests reads the text of Requests.
func ParseRequests(opID string) Requests {
	ids := strings.Split(opID, separator)
	return Requests{ID: ids[0], Back: ids[1:]}
}

// Text returns the OpID. As long as nothing is taken back it is the ID.
func (r Requests) Text() string {
	const remembered = 8
	back := r.Back[max(0, len(r.Back)-remembered):]
	return strings.Join(append([]string{r.ID}, back...), separator)
}

// Withdraw returns what is remembered once the request that stands is taken back.
func (r Requests) Withdraw() Requests {
	return Requests{Back: append(slices.Clone(r.Back), r.ID)}
}

// A Termination is what the Terminate part says: which requests are to be ended.
type Termination struct {
	IDs []string
	// Operation is what the last one was to run. It is there only if that was taken back, so
	// that an agent which never saw it can say what it was.
	Operation string
}

// Text returns the Terminate part; that of no request is "".
func (t Termination) Text() string {
	return strings.TrimSuffix(strings.Join(t.IDs, separator)+" "+t.Operation, " ")
}

// ParseTermination is the inverse of Termination.Text.
func ParseTermination(text string) (t Termination) {
	ids, operation, _ := strings.Cut(text, " ")
	if ids != "" {
		t.IDs = strings.Split(ids, separator)
	}
	t.Operation = operation
	return t
}

// Last returns the request that was made last; "" if there is none.
func (t Termination) Last() string {
	if len(t.IDs) == 0 {
		return ""
	}
	return t.IDs[len(t.IDs)-1]
}

// The phases of an operationState, as Argo CD spells them.
const (
	running     = "Running"
	terminating = "Terminating"
	failed      = "Failed"
)

// PendingOperation returns the operationState of a request that waits for an agent to
// take it: running, as Argo CD's own clients understand it.
func PendingOperation(operation, agent string, startedAt time.Time) string {
	return operationState(operation, running, waitingFor(agent), startedAt, time.Time{})
}

// OperationPending reports whether state is that of a PendingOperation, whatever its phase
// is by now: no agent is known to have taken it.
func OperationPending(state, agent string) bool {
	return decodeObject(state)["message"] == waitingFor(agent)
}

func waitingFor(agent string) string { return "waiting for agent " + agent }

// FailedOperation returns the operationState of a request that ends without being run.
func FailedOperation(operation, why string, startedAt, finishedAt time.Time) string {
	return operationState(operation, failed, why, startedAt, finishedAt)
}

// Terminating returns state as of an operation that a user wants to be ended: what Argo CD's
// own terminate does to it. One that has not begun has no state yet, and began at now.
func Terminating(state, operation string, now time.Time) string {
	m := decodeObject(state)
	if m == nil {
		return operationState(operation, terminating, "", now, time.Time{})
	}
	m["phase"] = terminating
	return Canonical(m)
}

// OperationTerminating reports whether state is that of an operation to be ended.
func OperationTerminating(state string) bool { return decodeObject(state)["phase"] == terminating }

// OperationFinished reports whether an operationState is that of an operation which has
// ended.
func OperationFinished(state string) bool {
	switch decodeObject(state)["phase"] {
	case "Succeeded", failed, "Error":
		return true
	}
	return false
}

// OperationOf returns the operation that state is of, and when it was started.
func OperationOf(state string) (operation string, startedAt time.Time) {
	m := decodeObject(state)
	text, _ := m["startedAt"].(string)
	startedAt, _ = time.Parse(time.RFC3339, text)
	return Canonical(m["operation"]), startedAt
}

func operationState(operation, phase, message string, startedAt, finishedAt time.Time) string {
	op, err := Decode(operation)
	if err != nil || op == nil {
		op = map[string]any{} // Argo CD's schema demands one
	}
	m := map[string]any{"phase": phase, "startedAt": startedAt.UTC().Format(time.RFC3339), "operation": op}
	if message != "" {
		m["message"] = message
	}
	if !finishedAt.IsZero() {
		m["finishedAt"] = finishedAt.UTC().Format(time.RFC3339)
	}
	return Canonical(m)
}

// decodeObject returns the object that text is; nil if it is none.
func decodeObject(text string) map[string]any {
	v, err := Decode(text)
	m, ok := v.(map[string]any)
	if err != nil || !ok {
		return nil
	}
	return m
}
