package seal_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/seal"
)

func newKey(t testing.TB) seal.Key {
	t.Helper()
	k, err := seal.New()
	require.NoError(t, err)
	return k
}

// pairOf returns what each of two ends makes of its own key and the other's public half.
func pairOf(t testing.TB, a, b seal.Key) (atA, atB *seal.Pair) {
	t.Helper()
	atA, err := seal.Between(a, b.Public())
	require.NoError(t, err)
	atB, err = seal.Between(b, a.Public())
	require.NoError(t, err)
	return atA, atB
}

func TestWhatOneEndSealsTheOtherOpens(t *testing.T) {
	a, b := pairOf(t, newKey(t), newKey(t))
	require.Equal(t, a.Digest(), b.Digest())
	require.Len(t, a.Digest(), 64)
	text := []byte(`{"spec":"hunter2"}`)
	for _, ends := range [][2]*seal.Pair{{a, b}, {b, a}} {
		sealed := ends[0].Seal(text, "Secret/argocd/repo", "d1")
		require.NotContains(t, string(sealed), "hunter2")
		require.NotEqual(t, sealed, ends[0].Seal(text, "Secret/argocd/repo", "d1"), "the same text looks different each time")
		got, err := ends[1].Open(sealed, "Secret/argocd/repo", "d1")
		require.NoError(t, err)
		require.Equal(t, text, got)
	}
}

func TestOpenRefuses(t *testing.T) {
	own, peer := newKey(t), newKey(t)
	a, b := pairOf(t, own, peer)
	sealed := a.Seal([]byte("text"), "key", "digest")
	other, err := seal.Between(newKey(t), own.Public())
	require.NoError(t, err)
	for name, open := range map[string]func() ([]byte, error){
		"of another key":        func() ([]byte, error) { return b.Open(sealed, "other", "digest") },
		"of another digest":     func() ([]byte, error) { return b.Open(sealed, "key", "other") },
		"a shifted border":      func() ([]byte, error) { return b.Open(sealed, "keyd", "igest") },
		"by a third end":        func() ([]byte, error) { return other.Open(sealed, "key", "digest") },
		"given back to its end": func() ([]byte, error) { return a.Open(sealed, "key", "digest") },
		"cut":                   func() ([]byte, error) { return b.Open(sealed[:len(sealed)-1], "key", "digest") },
		"nothing":               func() ([]byte, error) { return b.Open(nil, "key", "digest") },
		"changed": func() ([]byte, error) {
			spoilt := bytes.Clone(sealed)
			spoilt[len(spoilt)/2] ^= 1
			return b.Open(spoilt, "key", "digest")
		},
	} {
		_, err := open()
		require.ErrorIs(t, err, seal.ErrOpen, name)
	}
}

func TestEveryKeyMakesAnotherPair(t *testing.T) {
	own, peer := newKey(t), newKey(t)
	a, _ := pairOf(t, own, peer)
	again, _ := pairOf(t, own, peer)
	require.Equal(t, a.Digest(), again.Digest(), "the same after a restart")
	for _, ends := range [][2]seal.Key{{own, newKey(t)}, {newKey(t), peer}} {
		b, _ := pairOf(t, ends[0], ends[1])
		require.NotEqual(t, a.Digest(), b.Digest())
	}
}

func TestBetweenRefuses(t *testing.T) {
	own := newKey(t)
	low := base64.RawURLEncoding.EncodeToString(make([]byte, 32)) // makes the same secret with every key
	for _, public := range []seal.Public{"", "?", "AAAA", seal.Public(low), own.Public()} {
		_, err := seal.Between(own, public)
		require.Error(t, err, public)
	}
}

func TestKeysAreKept(t *testing.T) {
	k := newKey(t)
	text, err := k.Marshal()
	require.NoError(t, err)
	got, err := seal.Parse(text)
	require.NoError(t, err)
	require.Equal(t, k.Public(), got.Public())
	require.False(t, got.Zero())
	require.True(t, seal.Key{}.Zero())

	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	for _, b := range []*pem.Block{{Type: "CERTIFICATE", Bytes: der}, {Type: "PRIVATE KEY", Bytes: der}, {Type: "PRIVATE KEY", Bytes: []byte("hunter2")}, {}} {
		_, err := seal.Parse(pem.EncodeToMemory(b))
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, err = seal.Parse([]byte("hunter2"))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hunter2")
}

func TestKeysAreNotPrinted(t *testing.T) {
	k := newKey(t)
	text, err := k.Marshal()
	require.NoError(t, err)
	b, _ := pem.Decode(text)
	p, _ := pairOf(t, k, newKey(t))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(verb, struct{ seal.Key }{k}), fmt.Sprint(b.Bytes[16:20]))
		require.Equal(t, "(key)", fmt.Sprintf(verb, k))
		require.Equal(t, "(pair of keys)", fmt.Sprintf(verb, p))
	}
}

// FuzzSeal seals any text for any place, and hands Open whatever is near it.
func FuzzSeal(f *testing.F) {
	a, b := pairOf(f, newKey(f), newKey(f))
	f.Add([]byte(`{"spec":1}`), "Secret/argocd/repo", "0a1b", []byte{1})
	f.Add([]byte{}, "", "", []byte{})
	f.Fuzz(func(t *testing.T, text []byte, key, digest string, noise []byte) {
		sealed := a.Seal(text, key, digest)
		got, err := b.Open(sealed, key, digest)
		require.NoError(t, err)
		require.True(t, bytes.Equal(text, got))
		spoilt := bytes.Clone(sealed)
		for i, n := range noise {
			spoilt[i%len(spoilt)] ^= n
		}
		if !bytes.Equal(spoilt, sealed) {
			_, err = b.Open(spoilt, key, digest)
			require.ErrorIs(t, err, seal.ErrOpen)
		}
		_, err = b.Open(noise, key, digest)
		require.ErrorIs(t, err, seal.ErrOpen)
	})
}
