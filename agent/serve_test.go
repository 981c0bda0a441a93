package agent

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport/memlink"
)

// The principal is told what is its own affair, and no more; what is asked of a service
// that is not there ends at once.
func TestAnswersThePrincipal(t *testing.T) {
	for _, mode := range []resource.Mode{resource.Managed, resource.Autonomous} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := memlink.New(memlink.Config{Keeps: true})
				h := net.Hub(presence())
				stopHub := background(t, h.Run)
				link, err := h.Link(t.Context(), "edge")
				require.NoError(t, err)
				cluster := memstore.New(memstore.Config{Name: "edge"})
				edit(cluster, app("argocd", "own"), resource.Spec, `{"secret":true}`)
				edit(cluster, app("elsewhere", "web"), resource.Spec, `{}`)
				core, logged := observer.New(zap.InfoLevel)
				book := ledger.InMemory().Book("principal")
				_, err = book.Put(ledger.Letter{Key: "Application/web", Cause: ledger.Refused, Last: time.Now()})
				require.NoError(t, err)
				a, err := New(Config{
					Name: "edge", Namespace: "argocd", Dialer: net.Agent("edge", presence()), Store: cluster,
					Rules: resource.Rules{Mode: mode}, Tick: time.Second, Letters: book, Log: zap.New(core),
				})
				require.NoError(t, err)
				stop := background(t, a.Run)
				settle()

				c, err := link.Streams().Open(t.Context(), "shell")
				require.NoError(t, err)
				_, err = c.Read(make([]byte, 1))
				require.ErrorIs(t, err, io.EOF)
				require.NoError(t, c.Close())

				client := inquiry.NewClient(dialer(link.Streams().Open))
				got, err := client.Objects(t.Context(), false, func(o resource.Object) resource.Object { return o })
				require.NoError(t, err)
				require.Len(t, got, 1)
				require.Equal(t, app("", "own"), got[0].Key)
				require.NotEmpty(t, got[0].UID)
				if mode == resource.Managed {
					require.Equal(t, resource.Parts{}, got[0].Parts, "it is the cluster's own")
				} else {
					require.Equal(t, `{"secret":true}`, got[0].Parts[resource.Spec])
				}
				st, err := client.Standing(t.Context(), "")
				require.NoError(t, err)
				require.Equal(t, 1, st.DeadLetters)
				letters, err := client.List(t.Context())
				require.NoError(t, err)
				require.NoError(t, client.Retry(t.Context(), letters[0].ID))
				require.NoError(t, client.Drop(t.Context(), letters[0].ID))
				require.Zero(t, book.Count())
				told := logged.FilterMessage("the principal's user sees to a dead letter").All()
				require.Len(t, told, 2)
				require.Equal(t, "drop", told[1].ContextMap()["what"])

				stop()
				_, err = client.Standing(t.Context(), "")
				require.Error(t, err, "it is not there any more")
				require.NoError(t, link.Close())
				stopHub()
			})
		})
	}
}

// dialer opens streams of the service that answers inquiries.
func dialer(open func(context.Context, string) (net.Conn, error)) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) { return open(ctx, inquiry.Service) }
}
