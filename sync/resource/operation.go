package resource

import (
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

// withdrawn begins the OpID of a principal's object whose request was taken back.
const withdrawn = "withdrawn-"

// Withdraw returns the OpID by which a principal remembers that it has taken back the
// request id, until the agent has said that it knows. It names no request any more.
func Withdraw(id string) string { return withdrawn + id }

// Withdrawn is the inverse of Withdraw.
func Withdrawn(opID string) (id string, ok bool) { return strings.CutPrefix(opID, withdrawn) }

// TerminateText returns the Terminate part for the request id. operation is given only if
// the request was taken back, so that an agent which never saw it can say what it was.
func TerminateText(id, operation string) string { return strings.TrimSuffix(id+" "+operation, " ") }

// ParseTerminate is the inverse of TerminateText.
func ParseTerminate(text string) (id, operation string) {
	id, operation, _ = strings.Cut(text, " ")
	return id, operation
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
