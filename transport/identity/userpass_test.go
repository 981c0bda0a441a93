package identity_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// hash returns one that costs little to check.
func hash(t *testing.T, password string) string {
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	require.NoError(t, err)
	return string(h)
}

// A world of passwords is a hub with a file of users.
type passwords struct {
	office
	ca     identity.Bundle // the hub's own
	file   string
	method identity.Method
	source identity.Source
	hub    *identity.Credentials
}

func newPasswords(t *testing.T, users identity.Users) *passwords {
	p := &passwords{office: newOffice(t), file: filepath.Join(t.TempDir(), "users")}
	ca := p.office.ca()
	p.ca = bundle(p.server(ca), ca)
	p.write(users.Text())
	var err error
	p.method, err = identity.ParseMethod("userpass:"+p.file, identity.Terms{})
	require.NoError(t, err)
	p.source = p.method.Source(keptOf(p.ca))
	b, err := p.source(t.Context())
	require.NoError(t, err)
	p.hub = p.credentials(b)
	return p
}

func (p *passwords) write(text []byte) { require.NoError(p, os.WriteFile(p.file, text, 0o600)) }

// replace has the hub use other users.
func (p *passwords) replace(users identity.Users) {
	p.write(users.Text())
	b, err := p.source(p.Context())
	require.NoError(p, err)
	changed, err := p.hub.Replace(b, p.options.Now)
	require.NoError(p, err)
	require.True(p, changed)
}

func (p *passwords) prove(user, password string) (identity.Proof, error) {
	return p.method.Prove(p.hub, identity.Shown{Login: identity.Login{User: user, Password: password}})
}

func TestPasswords(t *testing.T) {
	first := hash(t, "secret")
	p := newPasswords(t, identity.Users{"north": first, "south": hash(t, "other")})
	for range 2 { // the second time it is remembered
		proof, err := p.prove("north", "secret")
		require.NoError(t, err)
		require.Equal(t, "north", proof.Agent)
		require.NoError(t, p.hub.Trusts(proof, p.options.Now))
		for _, l := range [][2]string{{"north", "other"}, {"north", "secret "}, {"east", "secret"}, {"North", "secret"}, {"north", ""}, {"north", strings.Repeat("x", 73)}} {
			proof, err := p.prove(l[0], l[1])
			require.EqualError(t, err, "identity: no such user and password", "%q", l)
			require.Error(t, p.hub.Trusts(proof, p.options.Now))
		}
	}
	_, err := p.method.Prove(p.hub, identity.Shown{})
	require.EqualError(t, err, "identity: the peer has said no user and password")

	proof, err := p.prove("north", "secret")
	require.NoError(t, err)
	p.hub.Block(identity.Blocklist{"north": "it was sold"})
	require.EqualError(t, p.hub.Trusts(proof, p.options.Now), "identity: agent north is on the blocklist: it was sold")
	p.hub.Block(nil)
	p.replace(identity.Users{"north": hash(t, "secret")})
	require.EqualError(t, p.hub.Trusts(proof, p.options.Now), "identity: north has another password")
	p.replace(identity.Users{"north": first})
	require.NoError(t, p.hub.Trusts(proof, p.options.Now))
	p.replace(identity.Users{})
	require.EqualError(t, p.hub.Trusts(proof, p.options.Now), "identity: north is no user any more")
	_, err = p.prove("north", "secret")
	require.EqualError(t, err, "identity: no such user and password", "nor by what is remembered")
}

// What is shown of a Login anywhere is not its password.
func TestPasswordsAreNotPrinted(t *testing.T) {
	l := identity.Login{User: "north", Password: "hunter2"}
	for _, text := range []string{fmt.Sprint(l), fmt.Sprintf("%v %+v %#v %s", l, &l, l, l), fmt.Sprintf("%+v", identity.Bundle{Login: l}), fmt.Sprintf("%#v", identity.Shown{Login: l})} {
		require.NotContains(t, text, "hunter2")
		require.Contains(t, text, "north")
	}
	_, err := identity.ParseLogin("file", []byte("Bad name:hunter2"))
	require.EqualError(t, err, "identity: read login in file: its first line does not begin with an agent's name and a colon")
}

func TestUsersAreReadByLine(t *testing.T) {
	good := hash(t, "secret")
	is, err := identity.ParseUsers("users", []byte("# all of them\n\nnorth:"+good+"\r\n"))
	require.NoError(t, err)
	require.Equal(t, identity.Users{"north": good}, is)
	again, err := identity.ParseUsers("users", is.Text())
	require.NoError(t, err)
	require.Equal(t, is, again)
	nobody, err := identity.ParseUsers("users", identity.Users{}.Text())
	require.NoError(t, err)
	require.NotNil(t, nobody)
	for text, want := range map[string]string{
		"":                               "there is nothing in it",
		"\n":                             "there is nothing in it",
		"north":                          "line 1: what north has is no bcrypt hash",
		"north:secret":                   "line 1: what north has is no bcrypt hash",
		"#\nNorth:" + good:               "line 2: it does not begin with an agent's name and a colon",
		"a:" + good + "\na:" + good:      "line 2: a has a line already",
		"a:$2a$15" + good[6:]:            "line 1: the hash of a has cost 15, above 14",
		"a:" + good + "\nb:" + good[:20]: "line 2: what b has is no bcrypt hash",
	} {
		_, err := identity.ParseUsers("users", []byte(text))
		require.ErrorContains(t, err, "identity: read users in users: "+want)
		require.NotContains(t, err.Error(), good)
	}
	made, err := identity.Hash("secret")
	require.NoError(t, err)
	require.NoError(t, bcrypt.CompareHashAndPassword([]byte(made), []byte("secret")))
	for _, bad := range []string{"", "a\nb", strings.Repeat("x", 73)} {
		_, err := identity.Hash(bad)
		require.Error(t, err)
	}
}

// An agent needs a password and the CA, no certificate; with another password it says that one.
func TestOwnLogin(t *testing.T) {
	o := newOffice(t)
	ca := o.ca()
	file := filepath.Join(t.TempDir(), "creds")
	source, err := identity.ParseOwn("userpass:"+file, identity.Terms{})
	require.NoError(t, err)
	read := source(keptOf(identity.Bundle{CA: bundle(o.server(ca), ca).CA}))
	says := func(text string) (identity.Bundle, error) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return read(t.Context())
	}
	b, err := says("north:se:cret\nmore")
	require.NoError(t, err)
	own := o.credentials(b)
	require.Equal(t, identity.Login{User: "north", Password: "se:cret"}, own.Login())
	require.Equal(t, "north", own.Name())
	require.True(t, own.Expiry().IsZero())
	require.NoError(t, own.Claims("north"))
	require.EqualError(t, own.Claims("south"), `identity: the login is of agent "north", not of "south"`)

	p := newPasswords(t, identity.Users{})
	_, client, _ := shake(t, own.Client("127.0.0.1"), o.credentials(bundle(o.server(ca), ca)).Server())
	require.ErrorContains(t, client, "certificate required")
	_, client, _ = shake(t, own.Client("127.0.0.1"), p.hub.Server())
	require.ErrorContains(t, client, "signed by unknown authority", "a password is said to the principal only")

	told := own.Changed()
	b, err = says("north:other\n")
	require.NoError(t, err)
	changed, err := own.Replace(b, o.options.Now)
	require.NoError(t, err)
	require.True(t, changed)
	<-told
	b, err = says("south:other")
	require.NoError(t, err)
	_, err = own.Replace(b, o.options.Now)
	require.EqualError(t, err, `identity: login is of "south", and not of "north" as before: restart to use it`)
	for _, bad := range []string{"", "north", "north:", ":x", "\nnorth:x", "north:" + strings.Repeat("x", 73)} {
		_, err := says(bad)
		require.ErrorContains(t, err, "identity: read login in "+file)
	}
}
