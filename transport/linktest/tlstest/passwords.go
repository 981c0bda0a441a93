package tlstest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/crypto/bcrypt"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// patient is a heartbeat by which nobody is missed on a machine that is busy.
const patient = 3 * time.Second

// passwords: agents without certificates are let in by what they say, for as long as it holds;
// another agent is not cut off, and no log has a password.
func passwords(t *testing.T, a Adapter) {
	ca := NewAuthority(t)
	hub := Bundle(ca.ServerPair(t), ca)
	users := func(all identity.Users) identity.Bundle {
		b := hub
		b.Users = identity.Users{}
		for name, password := range all {
			h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
			require.NoError(t, err)
			b.Users[name] = string(h)
		}
		return b
	}
	south := users(identity.Users{"south": "south's word"}).Users["south"]
	with := func(all identity.Users) identity.Bundle {
		b := users(all)
		b.Users["south"] = south
		return b
	}
	own, err := identity.NewCredentials(with(identity.Users{"north": "another word"}), time.Now())
	require.NoError(t, err)
	method, err := identity.ParseMethod("userpass:users", identity.Terms{})
	require.NoError(t, err)
	w := a.meeting(t, patient, own, method.Prove)
	core, said := observer.New(zap.DebugLevel)
	agent := func(name, password string) (*identity.Credentials, transport.Link) {
		c, err := identity.NewCredentials(login(ca, name, password), time.Now())
		require.NoError(t, err)
		return c, w.dial(name, w.address, End{Own: c, Heartbeat: patient, Log: zap.New(core)})
	}
	says := func(c *identity.Credentials, name, password string) {
		_, err := c.Replace(login(ca, name, password), time.Now())
		require.NoError(t, err)
	}

	replace := func(b identity.Bundle) {
		t.Helper()
		changed, err := own.Replace(b, time.Now())
		require.NoError(t, err)
		require.True(t, changed)
	}
	other, north := w.link("south"), w.link("north")
	cut := func(why string) {
		t.Helper()
		for !strings.Contains(w.told(cutOff), why) { // an adapter may tell of a connection that has just ended
		}
		w.await(north, is(transport.Down))
	}

	_, untouched := agent("south", "south's word")
	w.send(untouched, other, "at first")
	mine, link := agent("north", "first word")
	require.Contains(t, w.told("refused a connection"), "identity: no such user and password")
	replace(with(identity.Users{"north": "first word"}))
	w.send(link, north, "up")
	w.send(north, link, "down")

	says(mine, "north", "second word")
	w.await(north, is(transport.Down))
	replace(with(identity.Users{"north": "second word"}))
	w.await(north, is(transport.Up))
	own.Block(identity.Blocklist{"north": "it was sold"})
	cut("is on the blocklist: it was sold")
	own.Block(nil)
	w.await(north, is(transport.Up))
	replace(with(nil))
	cut("north is no user any more")
	replace(with(identity.Users{"north": "second word"}))
	w.await(north, is(transport.Up))
	replace(with(identity.Users{"north": "third word"}))
	cut("north has another password")
	w.put(north, "meanwhile")
	says(mine, "north", "third word")
	w.arrives(link, "meanwhile")

	w.send(untouched, other, "at last")
	for _, l := range w.logged.FilterMessage(cutOff).All() {
		require.Equal(t, "north", l.ContextMap()["agent"])
	}
	for _, l := range append(said.All(), w.logged.All()...) {
		text, err := json.Marshal(l.ContextMap())
		require.NoError(t, err)
		require.NotContains(t, l.Message+string(text), " word")
		require.NotContains(t, l.Message+string(text), "$2")
	}
}

// login is what an agent has that says a password.
func login(ca Authority, name, password string) identity.Bundle {
	return identity.Bundle{CA: identity.Text{Where: "ca", PEM: ca.Pair().Cert}, Login: identity.Login{User: name, Password: password}}
}
