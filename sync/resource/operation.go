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

// PendingOperation returns the operationState of a request that waits for an agent to
// take it: running, as Argo CD's own clients understand it.
func PendingOperation(operation, agent string, startedAt time.Time) string {
	op, err := Decode(operation)
	if err != nil {
		op = nil
	}
	return Canonical(map[string]any{
		"phase":     "Running",
		"message":   "waiting for agent " + agent,
		"startedAt": startedAt.UTC().Format(time.RFC3339),
		"operation": op,
	})
}

// OperationFinished reports whether an operationState is that of an operation which has
// ended.
func OperationFinished(state string) bool {
	v, err := Decode(state)
	m, ok := v.(map[string]any)
	if err != nil || !ok {
		return false
	}
	switch m["phase"] {
	case "Succeeded", "Failed", "Error":
		return true
	}
	return false
}
