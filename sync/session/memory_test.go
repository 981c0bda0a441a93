package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/session"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

// TestWhatIsHeldIsRemembered: one absence, which alone would be taken for a removal that was
// missed, is held by the next process as it was by this one, although both logs are lost; so is
// whatever is missing if what was remembered cannot be read.
func TestWhatIsHeldIsRemembered(t *testing.T) {
	for name, garble := range map[string]func(*ledger.Book) error{
		"as it was":  func(*ledger.Book) error { return nil },
		"unreadable": func(b *ledger.Book) error { return b.Remember([]byte("?")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				book := ledger.InMemory().Book("principal")
				r.spoke.tune = func(c *session.Config) { c.Letters = book }
				r.start()
				for _, name := range []string{"a", "b", "c"} {
					r.hub.set(name, resource.Spec, `{"n":1}`)
				}
				settle(time.Minute)
				before := r.hub.cluster.Snapshot()
				r.hub.set("since", resource.Spec, `{"n":1}`)
				settle(time.Minute)
				r.hub.stop()
				r.hub.cluster.Restore(before)
				r.hub.start()
				settle(time.Minute)
				require.Len(t, r.spoke.Status().Engine.Held, 1)
				require.NotEmpty(t, book.Remembered())

				require.NoError(t, garble(book))
				r.hub.stop()
				r.spoke.stop()
				r.net.Lose(agentName, memlink.HubLog)
				r.net.Lose(agentName, memlink.AgentLog)
				r.start()
				settle(time.Hour)
				require.Len(t, r.spoke.Status().Engine.Held, 1)
				require.Len(t, r.spoke.cluster.All(), 4)
				require.Len(t, r.hub.Status().Engine.Theirs, 1, "the hub is told")

				r.hub.set("since", resource.Spec, `{"n":1}`)
				settle(time.Minute)
				require.Empty(t, r.spoke.Status().Engine.Held)
				require.Empty(t, book.Remembered(), "there is nothing left to remember")
			})
		})
	}
}
