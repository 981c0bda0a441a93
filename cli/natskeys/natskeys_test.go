package natskeys

import (
	"crypto/x509"
	"encoding/pem"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
)

func request(t *testing.T) Request {
	o := pki.Options{Now: time.Now(), Lifetime: time.Hour}
	ca, err := pki.NewCA("a CA", o)
	require.NoError(t, err)
	return Request{CA: ca, Hosts: []string{"127.0.0.1"}, Options: o}
}

// What is there stays, and what is lost is made again where it can be.
func TestComplete(t *testing.T) {
	r := request(t)
	all, err := Complete(Set{}, r)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{Keys, Routes, Cert, Key, CA}, slices.Collect(maps.Keys(all.Servers)))
	require.ElementsMatch(t, []string{User, Issuer, Cert, Key, CA}, slices.Collect(maps.Keys(all.Principal)))
	require.NotContains(t, string(all.Servers[Keys]), string(all.Principal[User]), "a seed is secret")

	again, err := Complete(all, r)
	require.NoError(t, err)
	require.Equal(t, all, again)

	for _, file := range []string{Keys, Routes, CA} {
		less := Set{Servers: maps.Clone(all.Servers), Principal: all.Principal}
		delete(less.Servers, file)
		again, err := Complete(less, r)
		require.NoError(t, err)
		require.Equal(t, all, again, file)
	}
}

func TestRenewedCertificatesKeepTheirKeys(t *testing.T) {
	r := request(t)
	all, err := Complete(Set{}, r)
	require.NoError(t, err)
	r.Hosts = []string{"nats.example.com"}
	_, err = Complete(all, r)
	require.ErrorContains(t, err, "the servers' certificate does not hold for nats.example.com: --renew issues another")
	r.Renew = true
	renewed, err := Complete(all, r)
	require.NoError(t, err)
	block, _ := pem.Decode(renewed.Servers[Cert])
	leaf, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	for _, host := range []string{"nats.example.com", "127.0.0.1"} {
		require.NoError(t, leaf.VerifyHostname(host))
	}
	require.NotEqual(t, all.Servers[Cert], renewed.Servers[Cert])
	require.NotEqual(t, all.Principal[Cert], renewed.Principal[Cert])
	renewed.Servers[Cert], renewed.Principal[Cert] = all.Servers[Cert], all.Principal[Cert]
	require.Equal(t, all, renewed)
}

// Another CA is noticed, and certificates of it are given together with it.
func TestAnotherCA(t *testing.T) {
	all, err := Complete(Set{}, request(t))
	require.NoError(t, err)
	r := request(t)
	_, err = Complete(all, r)
	require.ErrorContains(t, err, "is of another CA: --renew issues one of this")
	r.Renew = true
	renewed, err := Complete(all, r)
	require.NoError(t, err)
	for name, files := range map[string]map[string][]byte{"servers": renewed.Servers, "principal": renewed.Principal} {
		require.Equal(t, string(r.CA.Pair().Cert), string(files[CA]), name)
		roots := x509.NewCertPool()
		require.True(t, roots.AppendCertsFromPEM(files[CA]))
		block, _ := pem.Decode(files[Cert])
		leaf, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		require.NoError(t, err, name)
	}
	r.Renew = false
	again, err := Complete(renewed, r)
	require.NoError(t, err)
	require.Equal(t, renewed, again)
}

func TestWhatDoesNotBelongTogetherIsRefused(t *testing.T) {
	r := request(t)
	one, err := Complete(Set{}, r)
	require.NoError(t, err)
	other, err := Complete(Set{}, r)
	require.NoError(t, err)
	for name, spoil := range map[string]func(Set){
		"of each other":           func(s Set) { s.Principal[User] = other.Principal[User] },
		"is not of the key":       func(s Set) { s.Servers[Routes] = other.Servers[Routes] },
		"without its key":         func(s Set) { delete(s.Principal, Key) },
		"principal.nk":            func(s Set) { s.Principal[User] = []byte("no seed") },
		"tls.crt, tls.key of the": func(s Set) { s.Servers[Key] = other.Servers[Key] },
	} {
		bad := Set{Servers: maps.Clone(one.Servers), Principal: maps.Clone(one.Principal)}
		spoil(bad)
		_, err := Complete(bad, r)
		require.ErrorContains(t, err, name)
	}
}

// For operator mode all is made together, stays, and what is missing of it is said.
func TestOperator(t *testing.T) {
	r := request(t)
	plain, err := Complete(Set{}, r)
	require.NoError(t, err)
	r.Operator = true
	_, err = Complete(plain, r)
	require.ErrorContains(t, err, "there is keys.conf, of servers that have their users in their configuration")
	all, err := Complete(Set{}, r)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{Accounts, Routes, Cert, Key, CA}, slices.Collect(maps.Keys(all.Servers)))
	require.ElementsMatch(t, []string{Creds, SystemCreds, Issuer, XKey, Cert, Key, CA}, slices.Collect(maps.Keys(all.Principal)))
	for _, secret := range []string{string(all.Principal[Issuer]), string(all.Operator[HubKey]), string(all.Operator[OperatorKey])} {
		require.NotEmpty(t, secret)
		require.NotContains(t, string(all.Servers[Accounts]), secret, "a seed is secret")
	}
	r.Operator = false
	again, err := Complete(all, r)
	require.NoError(t, err)
	require.Equal(t, all, again)

	for name := range all.operatorFiles() {
		less := Set{Servers: maps.Clone(all.Servers), Principal: maps.Clone(all.Principal), Operator: maps.Clone(all.Operator)}
		delete(less.operatorFiles()[name], name)
		_, err := Complete(less, Request{CA: r.CA, Hosts: r.Hosts, Options: r.Options, Operator: true})
		require.ErrorContains(t, err, "and not ["+name+"]")
	}
}
