package resource

import (
	"strconv"
	"strings"
	"time"
)

// The values of a RefreshMark. Any other is taken for RefreshNormal, as Argo CD does.
const (
	RefreshNormal = "normal"
	RefreshHard   = "hard" // caches are not used
)

// RefreshID names one request, made at a time, to refresh an object: it says which
// RefreshMark is asked for.
func RefreshID(mark string, at time.Time) string {
	if mark != RefreshHard {
		mark = RefreshNormal
	}
	return mark + "-" + strconv.FormatInt(at.UnixNano(), 10)
}

// RefreshAsked returns the RefreshMark that the request id asks for.
func RefreshAsked(id string) string {
	if strings.HasPrefix(id, RefreshHard+"-") {
		return RefreshHard
	}
	return RefreshNormal
}

// waiting begins the Refresh of a principal's object which has lost its RefreshMark before
// the request was fulfilled.
const waiting = "waiting-"

// KeepRefresh returns the Refresh by which a principal remembers the request id when there
// is no RefreshMark for it any more: another mark is another request.
func KeepRefresh(id string) string { return waiting + id }

// RefreshKept returns the request that a principal's Refresh names, and whether it is kept
// without a mark.
func RefreshKept(refresh string) (id string, kept bool) { return strings.CutPrefix(refresh, waiting) }

// TakeRefresh returns the Refresh by which an agent remembers the request id, taken when the
// object had last been reconciled at since; "" if that does not matter.
func TakeRefresh(id, since string) string { return id + "/" + since }

// RefreshTaken returns the request that an agent's Refresh names.
func RefreshTaken(refresh string) (id string) {
	id, _ = cutLast(refresh)
	return id
}

// Refreshed returns the request that has been fulfilled on an agent's object, "" if there is
// none: Argo CD has taken the mark away, and has reconciled the object since the request was
// taken, or has found that it cannot.
func Refreshed(o Object) (id string) {
	if o.Parts[Refresh] == "" || o.Parts[RefreshMark] != "" {
		return ""
	}
	id, since := cutLast(o.Parts[Refresh])
	at, cannot := Reconciled(o.Parts[Status])
	if since != "" && since == at && !cannot {
		return ""
	}
	return id
}

func cutLast(refresh string) (id, since string) {
	if i := strings.LastIndexByte(refresh, '/'); i >= 0 {
		return refresh[:i], refresh[i+1:]
	}
	return refresh, ""
}

// Reconciled returns when an object of this status was last reconciled, as it stands there,
// and whether the status says that the object cannot be reconciled as it is. A status may be
// large, and is looked at often: it is not taken apart. In canonical JSON these names stand
// nowhere else, and within a text their quotes would be escaped.
func Reconciled(status string) (at string, cannot bool) {
	_, rest, _ := strings.Cut(status, `"reconciledAt":"`)
	at, _, _ = strings.Cut(rest, `"`)
	return at, Invalid(status) || strings.Contains(status, `"type":"UnknownError"`)
}

// Invalid reports whether a status says that Argo CD cannot make sense of the object, as when
// its project is not there.
func Invalid(status string) bool { return strings.Contains(status, `"type":"InvalidSpecError"`) }
