package real

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/e2e/stack"
)

// A span is a part of an audit log.
type span struct{ from, to int }

// revoke says that what is refused to our programs on a cluster from now on, and until what
// it returns is called, is meant to be.
func (w *world) revoke(t *testing.T, cluster string) (restore func()) {
	t.Helper()
	now := func() int {
		records, err := w.stack.Cluster(cluster).Audit()
		require.NoError(t, err)
		return len(records)
	}
	from := now()
	return func() { w.revoked[cluster] = append(w.revoked[cluster], span{from, now()}) }
}

// unrevoked returns the records of a cluster's audit log without the refusals that were
// meant to be.
func (w *world) unrevoked(cluster string, records []stack.AuditRecord) (out []stack.AuditRecord) {
	for i, r := range records {
		meant := slices.ContainsFunc(w.revoked[cluster], func(s span) bool { return s.from <= i && i < s.to })
		if !meant || r.Code != http.StatusForbidden && r.Code != http.StatusUnauthorized {
			out = append(out, r)
		}
	}
	return out
}
