package admin

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// What either side cannot do is a letter that is shown, retried and dropped from the hub.
func TestLettersOfBothSides(t *testing.T) {
	for _, side := range []string{HubSide, SpokeSide} {
		t.Run(side, func(t *testing.T) {
			mode, ns := resource.Managed, "argocd"
			if side == HubSide {
				mode, ns = resource.Autonomous, "one" // whose copies are on the hub
			}
			within(t, agents{{Name: "one", Mode: mode}, {Name: "two"}}, func(t *testing.T, r *rig) {
				one, stop := r.spoke("one", resource.Rules{Mode: mode})
				defer stop()
				original, store, copied := r.hub, one, app(ns, "web")
				if side == HubSide {
					original, store = one, r.hub
				}
				never := fmt.Errorf("quota: %w", backend.ErrRefused)
				store.why.Store(&never)
				edit(original, app(map[string]string{HubSide: "argocd", SpokeSide: "one"}[side], "web"), resource.Spec, spec("v1"))
				settle()

				all, err := r.Letters(t.Context(), "")
				require.NoError(t, err)
				require.Len(t, all.Letters, 1)
				require.Contains(t, all.Unread, "two", "it is away")
				l := all.Letters[0]
				require.Equal(t, []string{"one", side, "Application/web", "refused"}, []string{l.Agent, l.Side, l.Key, string(l.Cause)})
				require.Empty(t, l.Event)
				whole, err := r.Letter(t.Context(), l)
				require.NoError(t, err)
				require.Contains(t, string(whole.Event), "guestbook")
				list, err := r.Agents(t.Context())
				require.NoError(t, err)
				require.Equal(t, 1, list.Agents[0].Hub.DeadLetters+list.Agents[0].Spoke.DeadLetters)

				// What refused it is gone: it is tried again, and the letter goes.
				store.why.Store(nil)
				settle()
				_, there := store.Get(copied)
				require.False(t, there, "it is not tried again by itself")
				require.NoError(t, r.Retry(t.Context(), l))
				settle()
				_, there = store.Get(copied)
				require.True(t, there)
				all, err = r.Letters(t.Context(), "one")
				require.NoError(t, err)
				require.Empty(t, all.Letters)
				told := r.log.FilterMessage("a dead letter is retried").All()
				require.Len(t, told, 1)
				require.Equal(t, map[string]any{"agent": "one", "side": side, "id": l.ID, "key": "Application/web", "cause": "refused"}, told[0].ContextMap())
				require.ErrorContains(t, r.Retry(t.Context(), l), "there is no such dead letter")

				// Another one is dropped.
				store.why.Store(&never)
				edit(original, app(map[string]string{HubSide: "argocd", SpokeSide: "one"}[side], "web"), resource.Spec, spec("v2"))
				settle()
				require.NoError(t, r.Drop(t.Context(), l), "it has the same name")
				all, err = r.Letters(t.Context(), "one")
				require.NoError(t, err)
				require.Empty(t, all.Letters)
				require.Equal(t, 1, r.log.FilterMessage("a dead letter is dropped").Len())
			})
		})
	}
}

// An agent that answers nonsense, or nothing, is told to be so, and harms no other.
func TestAHostileAgentHarmsNoOther(t *testing.T) {
	within(t, agents{{Name: "one"}, {Name: "rogue"}}, func(t *testing.T, r *rig) {
		_, stop := r.spoke("one", resource.Rules{})
		defer stop()
		link, err := r.net.Agent("rogue", presence()).Dial(t.Context())
		require.NoError(t, err)
		defer link.Close()
		settle()
		answers := make(chan string, 1)
		go func() {
			for {
				service, c, err := link.Streams().Accept(t.Context())
				if err != nil {
					return
				}
				if service != inquiry.Service {
					panic("another service is asked for: " + service)
				}
				go func() {
					defer c.Close()
					request := make([]byte, 1<<10)
					_, _ = c.Read(request)
					text := <-answers
					answers <- text
					_, _ = io.WriteString(c, text)
				}()
			}
		}()
		for _, text := range []string{
			"", "\x00\x01\x02", "HTTP/1.1 200 OK\r\n\r\n\x1b[2J\n",
			"HTTP/1.1 200 OK\r\n\r\n" + `{"kind":"Application","name":"a/../b","uid":"1","of":"2","by":"hub-1","parts":{"meta":"[]","spec":"nonsense"}}` + "\n",
		} {
			answers <- text
			v := r.verdict("rogue")
			require.True(t, v.Error != "" || len(v.Differences) > 0, "%q", text)
			all, err := r.Letters(t.Context(), "")
			require.NoError(t, err)
			require.NotContains(t, all.Unread, "one")
			_, err = r.Agents(t.Context())
			require.NoError(t, err)
			<-answers
		}
		require.Empty(t, r.verdict("one").Error)
		_, err = r.Letter(t.Context(), Letter{Agent: "one", Side: SpokeSide})
		var failed *Failed
		require.ErrorAs(t, err, &failed)
		require.Equal(t, http.StatusNotFound, failed.Code)
	})
}
