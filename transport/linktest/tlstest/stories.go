package tlstest

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

const cutOff = "an agent is cut off"

// Run plays the stories of who is let in, and for how long.
func Run(t *testing.T, a Adapter) {
	for name, story := range map[string]func(*world){
		"Replaced": replaced, "Expired": expired, "Blocked": blocked, "ThroughAProxy": throughAProxy,
	} {
		t.Run(name, func(t *testing.T) { story(a.world(t, heartbeat)) })
	}
	if !a.Elsewhere {
		t.Run("WrongClocks", func(t *testing.T) { wrongClocks(a.world(t, heartbeat)) })
		t.Run("WrongHubsClock", func(t *testing.T) { wrongHubsClock(a.world(t, heartbeat)) })
	}
	t.Run("Passwords", func(t *testing.T) { passwords(t, a) })
}

// replaced: certificates of both sides are replaced, then the CA, with overlap, then the old CA
// goes, while messages flow both ways: none is lost, and each connection is by the newest. What
// is of the old CA is cut off then, and not let in any more.
func replaced(w *world) {
	old, next, own := w.ca, NewAuthority(w), w.ca.Client(w, "north")
	hub, agent := w.link("north"), w.dial("north", w.address, End{Own: own, Heartbeat: heartbeat})
	n := 0
	flow := func() {
		w.Helper()
		n++
		w.send(hub, agent, fmt.Sprint("down ", n))
		w.send(agent, hub, fmt.Sprint("up ", n))
	}
	renew := func(c *identity.Credentials, pair pki.Pair, trusted ...Authority) {
		w.Helper()
		changed, err := c.Replace(Bundle(pair, trusted...), time.Now())
		require.NoError(w, err)
		require.True(w, changed)
		flow()
	}
	anew := func(of Authority, trusted ...Authority) {
		w.Helper()
		for len(w.met) > 0 {
			<-w.met
		}
		pair := of.AgentPair(w, "north")
		renew(own, pair, trusted...)
		for serial := certificate(w, pair).SerialNumber.String(); <-w.met != serial; {
		}
		flow()
	}
	flow()
	anew(old, old)
	renew(w.own, old.ServerPair(w), old)
	renew(w.own, old.ServerPair(w), old, next)
	anew(old, old, next)
	renew(w.own, next.ServerPair(w), old, next)
	anew(next, old, next)
	renew(w.own, next.ServerPair(w), next)
	require.Zero(w, w.logged.FilterMessage(cutOff).Len())

	_, err := w.own.Replace(Bundle(old.ServerPair(w), old), time.Now())
	require.NoError(w, err)
	require.Contains(w, w.told(cutOff), "certificate signed by unknown authority")
	w.await(agent, is(transport.Down))
	w.put(hub, "meanwhile")
	_, err = own.Replace(Bundle(old.AgentPair(w, "north"), old), time.Now())
	require.NoError(w, err)
	w.arrives(agent, "meanwhile")
}

// expired: a connection ends with the certificate by which it was made.
func expired(w *world) {
	hub := w.link("north")
	pair, err := w.ca.IssueAgent("north", pki.Options{Now: time.Now(), Lifetime: 4 * time.Second})
	require.NoError(w, err)
	w.dial("north", w.address, End{Own: Credentials(w, pair, w.ca), Heartbeat: heartbeat})
	w.await(hub, is(transport.Up))
	require.Contains(w, w.told(cutOff), "certificate has expired")
	w.await(hub, is(transport.Down))
}

// blocked: who is blocked, by name or by certificate, is cut off, told of, and let in once it
// is blocked no more; another agent notices nothing.
func blocked(w *world) {
	pair := w.ca.AgentPair(w, "north")
	north, south := w.link("north"), w.link("south")
	w.dial("north", w.address, End{Own: Credentials(w, pair, w.ca), Heartbeat: heartbeat})
	agent := w.dial("south", w.address, End{Own: w.ca.Client(w, "south"), Heartbeat: heartbeat})
	w.await(agent, is(transport.Up))
	w.await(south, is(transport.Up))
	w.await(north, is(transport.Up))
	const why = "is on the blocklist: it was sold"
	for i, who := range []string{"north", identity.Fingerprint(certificate(w, pair))} {
		w.own.Block(identity.Blocklist{who: "it was sold"})
		require.Contains(w, w.told(cutOff), why)
		w.await(north, is(transport.Down))
		if i == 0 { // of the same agent nobody is told again so soon
			require.Contains(w, w.told("refused a connection"), why)
		}
		w.own.Block(nil)
		w.await(north, is(transport.Up))
	}
	w.put(agent, "text")
	w.await(south, func(d transport.Delivery) bool {
		require.NotEqual(w, transport.Down, d.Event)
		return d.Event == transport.Value
	})
}

// throughAProxy: an agent that may not dial out reaches the hub through a proxy.
func throughAProxy(w *world) {
	proxy := &netfault.Proxy{Credentials: "Basic bWU6c2VjcmV0"}
	s := httptest.NewServer(proxy)
	w.Cleanup(func() { s.Close(); proxy.Wait() })
	u, err := url.Parse(s.URL)
	require.NoError(w, err)
	u.User = url.UserPassword("me", "secret")
	hub, agent := w.link("north"), w.dial("north", w.address, End{Own: w.ca.Client(w, "north"), Heartbeat: heartbeat, Proxy: u})
	w.send(agent, hub, "text")
	require.NotZero(w, proxy.Passed())
}

// SilentLine is the story of something between the two that lets nothing pass any more, and
// says so to neither. Both notice within 25 s, with the heartbeat that is the default; when it
// lets things pass again they find each other by themselves, and so they do if it has reset
// the connection.
func SilentLine(t *testing.T, a Adapter) {
	w, lines := a.world(t, 0), &Lines{}
	lines.Listen(w.address)
	line := lines.Line(t, "north")
	hub, agent := w.link("north"), w.dial("north", line.Addr(), End{Own: w.ca.Client(t, "north")})
	both := func(e transport.Event) {
		w.await(hub, is(e))
		w.await(agent, is(e))
	}
	both(transport.Up)
	began := time.Now()
	line.Set(netfault.BlackHole)
	both(transport.Down)
	require.Less(t, time.Since(began), 25*time.Second)
	w.put(hub, "meanwhile")
	line.Set(netfault.Healthy)
	both(transport.Up)
	w.arrives(agent, "meanwhile")
	line.Drop(0)
	w.send(agent, hub, "after")
}
