package resource

import (
	"encoding/json"
	"strings"
)

// Complaint returns what Argo CD says is wrong with an Application of this status: the first of
// its conditions that is an error, by type and message; "" is none.
func Complaint(status string) string {
	var s struct {
		Conditions []struct{ Type, Message string }
	}
	if json.Unmarshal([]byte(status), &s) != nil {
		return "" // no status of Argo CD's
	}
	for _, c := range s.Conditions {
		if strings.HasSuffix(c.Type, "Error") {
			return c.Type + ": " + c.Message
		}
	}
	return ""
}
