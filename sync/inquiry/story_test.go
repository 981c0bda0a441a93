package inquiry_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/journal"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func TestAStoryIsTold(t *testing.T) {
	a := &agent{}
	config := a.config()
	ask(t, over(inquiry.Handler(config)), func(t *testing.T, c *inquiry.Client) {
		_, _, err := c.Story(t.Context(), app("a"))
		require.ErrorIs(t, err, inquiry.ErrNoStory, "an older program")
	})
	told := inquiry.Story{
		Now: time.Unix(5, 0).UTC(), Since: time.Unix(1, 0).UTC(),
		State: inquiry.StateOf(engine.Account{
			Known: true, Here: true, Said: resource.Sum("x"), Told: resource.Sum("y"), ToldPhase: engine.Going, Failure: "no quota",
			Status: `{"reconciledAt":"2026-03-01T12:00:00Z"}`, Operation: `{}`,
		}),
		Page: journal.Page{Heard: []journal.Heard{{Of: journal.Of{Digest: "abc"}, Heard: time.Unix(4, 0).UTC(), End: journal.Failed, Why: "no quota"}}},
	}
	require.Equal(t, "going", told.State.ToldPhase)
	require.Equal(t, "2026-03-01T12:00:00Z", told.State.Reconciled)
	require.Len(t, told.State.Said, journal.Digits)
	var asked resource.Key
	config.Story = func(_ context.Context, k resource.Key) (inquiry.Story, error) {
		asked = k
		return told, nil
	}
	key := resource.Key{Kind: resource.Application, Namespace: "a&b", Name: "c d"}
	ask(t, over(inquiry.Handler(config)), func(t *testing.T, c *inquiry.Client) {
		got, _, err := c.Story(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, told, got)
		require.Equal(t, key, asked)
	})
	told.State.Fault = strings.Repeat("x", 1<<20)
	ask(t, over(inquiry.Handler(config)), func(t *testing.T, c *inquiry.Client) {
		got, _, err := c.Story(t.Context(), key)
		require.NoError(t, err)
		require.Len(t, got.State.Fault, 4<<10, "it is cut")
	})
	told.Page.Said = make([]journal.Said, journal.Kept+1)
	ask(t, over(inquiry.Handler(config)), func(t *testing.T, c *inquiry.Client) {
		_, _, err := c.Story(t.Context(), key)
		require.ErrorContains(t, err, "more than can be")
	})
}
