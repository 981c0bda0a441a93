package enroll

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func stranger(name, says string) transport.Stranger {
	return transport.Stranger{Agent: name, From: "192.0.2.7:1234", Says: says}
}

func TestWishesAreSaidAndRead(t *testing.T) {
	for _, w := range []Wish{
		{Mode: resource.Managed, Labels: map[string]string{}},
		{Mode: resource.Autonomous, Labels: map[string]string{"region": "north", "example.com/tier": "", "a": "b.c-D_e"}},
	} {
		text, err := w.Text()
		require.NoError(t, err)
		again, err := ParseWish(text)
		require.NoError(t, err)
		require.Equal(t, w, again)
	}
	later, err := ParseWish("mode=managed&shape=round&label=a%3Db")
	require.NoError(t, err)
	require.Equal(t, Wish{Mode: resource.Managed, Labels: map[string]string{"a": "b"}}, later)
	for text, says := range map[string]string{
		"":                                    `mode "" is neither`,
		"mode=both":                           `mode "both" is neither`,
		"mode=managed&label=%zz":              "cannot be read",
		"mode=managed&label=region":           `"region" is no label`,
		"mode=managed&label=a%3D%0a":          "label",
		"mode=managed&label=-%3Da":            "label",
		"mode=managed&label=a%3D1&label=a%3D": "is there twice",
		"mode=managed" + strings.Repeat("&label=a%3Db", maxLabels+1): "above 16",
		strings.Repeat("a", transport.MaxSaid+1):                     "longer than 1024",
	} {
		_, err := ParseWish(text)
		require.ErrorContains(t, err, says, text)
	}
	_, err = Wish{Labels: map[string]string{"a b": ""}}.Text()
	require.Error(t, err)
}

func TestPolicySaysWhichLabelsAreTaken(t *testing.T) {
	all := map[string]string{
		"region": "north", "env": "prod", "example.com/tier": "1", "example.com/team": "blue",
		"argocd-agent.argoproj-labs.io/agent-mode": "autonomous", "argocd.argoproj.io/secret-type": "cluster", "argoproj.io/x": "y",
	}
	for text, want := range map[string]string{
		"":                           "",
		"region":                     "region",
		" region , env=dev":          "region",
		"region=*,env=p*":            "env region",
		"example.com/*":              "example.com/team example.com/tier",
		"*":                          "env region",
		"*/*,*":                      "env example.com/team example.com/tier region",
		"argocd.argoproj.io/*,env=?": "",
	} {
		p, err := ParsePolicy(text)
		require.NoError(t, err, text)
		taken, dropped := p.Split(all)
		require.Len(t, dropped, len(all)-len(taken))
		var keys []string
		for _, key := range []string{"env", "example.com/team", "example.com/tier", "region"} {
			if v, ok := taken[key]; ok {
				require.Equal(t, all[key], v)
				keys = append(keys, key)
			}
		}
		require.Equal(t, want, strings.Join(keys, " "), text)
		require.Len(t, keys, len(taken), text)
	}
	for _, text := range []string{"[", "=a", "region,["} {
		_, err := ParsePolicy(text)
		require.ErrorContains(t, err, "is no pattern of labels", text)
	}
}

// Who waits is kept for as long as it comes again, is told of once, and is bounded.
func TestStrangersWaitForApproval(t *testing.T) {
	core, told := observer.New(zap.InfoLevel)
	d, err := NewDesk(Config{Policy: Policy{"region"}, Log: zap.New(core)})
	require.NoError(t, err)
	says := "mode=autonomous&label=region%3Dnorth&label=tier%3D1"
	for i := range 50 {
		d.Meet(stranger("edge-1", says), now.Add(time.Duration(i)*time.Second))
	}
	d.Meet(stranger("edge-0", ""), now)
	last := now.Add(49 * time.Second)
	require.Equal(t, []Candidate{
		{Agent: "edge-0", From: "192.0.2.7:1234", Since: now, Last: now, Err: errSilent},
		{Agent: "edge-1", From: "192.0.2.7:1234", Wish: &Wish{Mode: resource.Autonomous, Labels: map[string]string{"region": "north"}}, Dropped: []string{"tier"}, Since: now, Last: last},
	}, d.Waiting(last))
	require.Equal(t, 2, told.Len())
	require.Equal(t, []any{"tier"}, told.All()[0].ContextMap()["dropped"])

	// It may say another thing each time, which is not told each time.
	for i := range 50 {
		d.Meet(stranger("edge-1", fmt.Sprint("mode=managed&x=", i)), last)
	}
	require.Equal(t, 2, told.Len())
	require.Equal(t, resource.Managed, d.Waiting(last)[1].Wish.Mode)
	require.Empty(t, d.Waiting(last.Add(lingering+1)))

	for i := range 2 * maxWaiting {
		d.Meet(stranger(fmt.Sprint("agent-", i), says), last)
	}
	require.Len(t, d.Waiting(last), maxWaiting)
	require.Equal(t, 1, told.FilterMessageSnippet("too many agents").Len())
	later := last.Add(lingering + 1)
	d.Meet(stranger("edge-2", says), later)
	require.Len(t, d.Waiting(later), 1, "who does not come again makes room")
}

// Where no approval is needed each is registered once, and again after it was unregistered.
func TestStrangersAreRegistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, told := observer.New(zap.InfoLevel)
		registered := make(chan Candidate, 100)
		var fails atomic.Bool
		d, err := NewDesk(Config{Log: zap.New(core), Register: func(_ context.Context, c Candidate) error {
			if fails.Load() {
				return errors.New("the API server is away")
			}
			registered <- c
			return nil
		}})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		come := func(n int, says string) {
			for range n {
				d.Meet(stranger("edge-1", says), time.Now())
				time.Sleep(time.Second)
			}
		}
		fails.Store(true)
		come(30, "mode=managed")
		require.Empty(t, registered)
		require.ErrorContains(t, d.Waiting(time.Now())[0].Err, "away")
		require.Equal(t, 1, told.FilterMessage("an agent cannot be registered").Len(), "it is told once")
		fails.Store(false)
		come(30, "mode=managed")
		require.Len(t, registered, 1)
		require.Equal(t, "edge-1", (<-registered).Agent)
		require.Empty(t, d.Waiting(time.Now()))
		require.Equal(t, 1, told.FilterMessage("an agent has registered itself").Len())

		time.Sleep(2 * lingering) // it was connected
		come(1, "mode=autonomous")
		require.Equal(t, resource.Autonomous, (<-registered).Wish.Mode)

		come(90, "mode=autonomous") // it was unregistered at once
		require.Len(t, registered, 1)

		d.Meet(stranger("edge-2", "nonsense"), time.Now())
		d.Meet(stranger("edge-3", ""), time.Now())
		time.Sleep(3 * patience)
		require.Len(t, registered, 1, "who says nothing that is understood is not")
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

func TestDeskNeedsALog(t *testing.T) {
	_, err := NewDesk(Config{})
	require.Error(t, err)
}

// FuzzWish: what is understood can be said, and is the same then.
func FuzzWish(f *testing.F) {
	f.Add("mode=managed&label=a%3Db")
	f.Add("mode=autonomous")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := ParseWish(text)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(w.Labels), maxLabels)
		again, err := w.Text()
		if err != nil {
			require.ErrorContains(t, err, "longer than") // it was written shorter
			return
		}
		same, err := ParseWish(again)
		require.NoError(t, err)
		require.Equal(t, w, same)
	})
}
