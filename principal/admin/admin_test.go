package admin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

func TestShowsHowAgentsStand(t *testing.T) {
	within(t, agents{{Name: "away"}, {Name: "one"}, {Name: "plant", Mode: resource.Autonomous}}, func(t *testing.T, r *rig) {
		_, stop := r.spoke("one", resource.Rules{})
		defer stop()
		edit(r.hub, app("one", "web"), resource.Spec, spec("v1"))
		settle()
		all, err := r.Agents(t.Context())
		require.NoError(t, err)
		require.Len(t, all.Agents, 3)
		away, one, plant := all.Agents[0], all.Agents[1], all.Agents[2]
		require.Equal(t, Agent{Name: "away", Mode: "managed", State: "serving", Hub: Side{Rows: 0}, Held: []Held{}, Down: Flow{Known: true}}, away)
		require.Equal(t, "autonomous", plant.Mode)
		require.True(t, one.Connected)
		require.Equal(t, "test", one.Version)
		require.NotEmpty(t, one.Process)
		require.False(t, one.Since.IsZero())
		require.Equal(t, Side{InStep: true, Rows: 1}, one.Hub, "the agent has nothing to say yet")
		require.Equal(t, Side{InStep: true, Copied: 1}, *one.Spoke)

		again, err := r.Agent(t.Context(), "one")
		require.NoError(t, err)
		require.Equal(t, one, again)
		_, err = r.Agent(t.Context(), "two")
		require.EqualError(t, err, `agent "two" is not registered: argocd-agentctl agent list shows who is`)
	})
}

// Deletions that wait for an agent which is away are counted where all agents are shown, and
// named where one is.
func TestShowsDeletionsThatWait(t *testing.T) {
	within(t, agents{{Name: "one"}}, func(t *testing.T, r *rig) {
		_, stop := r.spoke("one", resource.Rules{})
		edit(r.hub, app("one", "web"), resource.Spec, spec("v1"))
		edit(r.hub, app("one", "web"), resource.Meta, resource.Metadata{Finalizers: []string{"resources-finalizer.argocd.argoproj.io"}}.Text())
		edit(r.hub, app("one", "stays"), resource.Spec, spec("v1"))
		settle()
		stop()
		r.hub.Delete(app("one", "web"))
		settle()
		all, err := r.Agents(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, all.Agents[0].Hub.Waiting)
		one, err := r.Agent(t.Context(), "one")
		require.NoError(t, err)
		require.Equal(t, 1, one.Hub.Waiting)
		require.Len(t, one.Waiting, 1)
		require.Equal(t, "Application/web", one.Waiting[0].Key)
	})
}

// Held deletions are carried out once a user has seen them, and none but those.
func TestApprovesWhatWasSeen(t *testing.T) {
	within(t, agents{{Name: "one"}}, func(t *testing.T, r *rig) {
		one, stop := r.spoke("one", resource.Rules{})
		defer stop()
		for i := range 10 {
			edit(r.hub, app("one", fmt.Sprint("web-", i)), resource.Spec, spec("v1"))
		}
		settle()
		_, err := r.Approve(t.Context(), Agent{Name: "one"})
		require.ErrorContains(t, err, "nothing is held")
		for i := range 9 {
			r.hub.Lose(app("one", fmt.Sprint("web-", i)))
		}
		settle()
		seen, err := r.Agent(t.Context(), "one")
		require.NoError(t, err)
		require.Len(t, seen.Held, 9)
		require.Equal(t, SpokeSide, seen.Held[0].Side)
		require.Equal(t, "Application/web-0", seen.Held[0].Key)
		require.Len(t, one.All(), 10)

		v := r.verdict("one")
		require.Len(t, v.Differences, 9)
		require.Equal(t, "extra", v.Differences[0].What)
		require.Contains(t, v.Differences[0].Reason, "held until it is approved")

		r.hub.Lose(app("one", "web-9"))
		settle()
		_, err = r.Approve(t.Context(), seen)
		require.ErrorContains(t, err, "what is held has changed since it was shown")
		require.Len(t, one.All(), 10)

		seen, err = r.Agent(t.Context(), "one")
		require.NoError(t, err)
		done, err := r.Approve(t.Context(), seen)
		require.NoError(t, err)
		require.Equal(t, seen.Held, done.Held)
		settle()
		require.Empty(t, one.All())
		require.Empty(t, r.verdict("one").Differences)
		told := r.log.FilterMessage("held deletions are approved").All()
		require.Len(t, told, 1)
		require.Equal(t, map[string]any{"agent": "one", "copies": int64(10), "first": "Application/web-0"}, told[0].ContextMap())
	})
}

// Whoever is on the loopback interface may ask; a page in a browser there may not.
func TestBrowsersAreRefused(t *testing.T) {
	within(t, agents{{Name: "one"}}, func(t *testing.T, r *rig) {
		for name, c := range map[string]struct {
			host, kind, site, method string
			code                     int
		}{
			"curl":               {"127.0.0.1:8404", "", "", http.MethodGet, http.StatusOK},
			"forwarded":          {"localhost:18404", "", "", http.MethodGet, http.StatusOK},
			"IPv6":               {"[::1]:8404", "", "", http.MethodGet, http.StatusOK},
			"rebound name":       {"evil.example.com:8404", "", "", http.MethodGet, http.StatusForbidden},
			"address of the pod": {"10.0.0.7:8404", "", "", http.MethodGet, http.StatusForbidden},
			"form":               {"127.0.0.1:8404", "application/x-www-form-urlencoded", "", http.MethodPost, http.StatusUnsupportedMediaType},
			"no type":            {"127.0.0.1:8404", "", "", http.MethodPost, http.StatusUnsupportedMediaType},
			"other site":         {"127.0.0.1:8404", "application/json", "cross-site", http.MethodPost, http.StatusForbidden},
			"program":            {"127.0.0.1:8404", "application/json; charset=utf-8", "", http.MethodPost, http.StatusNotFound},
		} {
			path := "/v1/agents"
			if c.method == http.MethodPost {
				path += "/one/letters/hub/0123456789ab/drop"
			}
			request := httptest.NewRequest(c.method, path, strings.NewReader("{}"))
			request.Host = c.host
			request.Header.Set("Content-Type", c.kind)
			request.Header.Set("Sec-Fetch-Site", c.site)
			w := httptest.NewRecorder()
			r.server.Handler().ServeHTTP(w, request)
			require.Equal(t, c.code, w.Code, "%s: %s", name, w.Body)
		}
	})
}

func TestBadQuestions(t *testing.T) {
	within(t, agents{{Name: "one"}}, func(t *testing.T, r *rig) {
		for _, c := range []struct {
			method, path, body string
			code               int
		}{
			{http.MethodPost, "/v1/agents/one/approve-deletions", `{"heldDigest":1}`, http.StatusBadRequest},
			{http.MethodPost, "/v1/agents/one/approve-deletions", `{"all":true}`, http.StatusBadRequest},
			{http.MethodPost, "/v1/agents/one/approve-deletions", `{"heldDigest":"` + strings.Repeat("a", maxBody) + `"}`, http.StatusBadRequest},
			{http.MethodPost, "/v1/agents/two/approve-deletions", `{}`, http.StatusNotFound},
			{http.MethodGet, "/v1/agents/one/verify", "", http.StatusBadRequest},
			{http.MethodGet, "/v1/agents/one/verify?settle=2h", "", http.StatusBadRequest},
			{http.MethodGet, "/v1/agents/two/verify?settle=1s", "", http.StatusNotFound},
			{http.MethodGet, "/v1/letters?agent=two", "", http.StatusNotFound},
			{http.MethodGet, "/v1/agents/one/letters/left/0123456789ab", "", http.StatusBadRequest},
			{http.MethodGet, "/v1/agents/one/letters/spoke/0123456789ab", "", http.StatusServiceUnavailable},
			{http.MethodGet, "/v1/agents/two/letters/spoke/0123456789ab", "", http.StatusNotFound},
			{http.MethodGet, "/", "", http.StatusNotFound},
		} {
			request := httptest.NewRequest(c.method, "http://127.0.0.1:8404"+c.path, strings.NewReader(c.body))
			request.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			r.server.Handler().ServeHTTP(w, request)
			require.Equal(t, c.code, w.Code, "%s: %s", c.path, w.Body)
		}
	})
}

func TestAddresses(t *testing.T) {
	for text, want := range map[string][2]string{
		"127.0.0.1:8404":         {"tcp", "127.0.0.1:8404"},
		"[::1]:0":                {"tcp", "[::1]:0"},
		"localhost:8404":         {"tcp", "localhost:8404"},
		"unix:///run/admin.sock": {"unix", "/run/admin.sock"},
	} {
		network, address, err := Address(text)
		require.NoError(t, err)
		require.Equal(t, want, [2]string{network, address})
	}
	for _, text := range []string{":8404", "0.0.0.0:8404", "hub.example.com:8404", "127.0.0.1", "unix://admin.sock", "unix://", ""} {
		_, _, err := Address(text)
		require.Error(t, err, text)
	}
	for _, text := range []string{"https://127.0.0.1:8404", "127.0.0.1:8404", "http://", "http://127.0.0.1:8404/v1", "unix://admin.sock", ""} {
		_, err := NewClient(text)
		require.Error(t, err, text)
	}
	_, err := New(Config{})
	require.Error(t, err)
}

var _ backend.Registry = agents{}

// Who waits to be registered is told, and nobody where the principal does not keep who does.
func TestShowsWhoWaitsToBeRegistered(t *testing.T) {
	within(t, agents{{Name: "one"}}, func(t *testing.T, r *rig) {
		none, err := r.Applicants(t.Context())
		require.NoError(t, err)
		require.Equal(t, Applicants{Applicants: []Applicant{}}, none)
		want := Applicant{Name: "two", Mode: "managed", Labels: map[string]string{"region": "north"}, Dropped: []string{"tier"}, From: "192.0.2.7:1", Since: time.Now().UTC(), Last: time.Now().UTC()}
		r.server.cfg.Applicants = func() []Applicant { return []Applicant{want} }
		some, err := r.Applicants(t.Context())
		require.NoError(t, err)
		require.Equal(t, []Applicant{want}, some.Applicants)
	})
}
