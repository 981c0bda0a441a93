package token_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/proxy/token"
)

// now is when these tests are.
var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func fresh(t testing.TB, kind token.Kind) []byte {
	text, err := token.NewKey(kind, token.MinBits)
	if kind != token.RSA {
		text, err = token.NewKey(kind, 0)
	}
	require.NoError(t, err)
	return text
}

func parsed(t testing.TB, texts ...[]byte) token.Keys {
	var all []byte
	for _, text := range texts {
		all = append(all, text...)
	}
	keys, err := token.ParseKeys(all)
	require.NoError(t, err)
	return keys
}

// secret returns what a text holds, as an attacker would have his own.
func secret(t testing.TB, text []byte) any {
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	require.NoError(t, err)
	return key
}

func TestTokensNameTheirAgent(t *testing.T) {
	for kind, alg := range map[token.Kind]string{token.RSA: "RS512", token.ECDSA: "ES256", token.Ed25519: "EdDSA"} {
		keys := parsed(t, fresh(t, kind))
		require.Equal(t, alg, keys[0].Algorithm())
		text, err := keys.Issue("edge-1", now)
		require.NoError(t, err)
		require.Less(t, len(text), token.MaxToken)
		for _, when := range []time.Time{now.Add(-time.Hour), now, now.AddDate(100, 0, 0)} {
			agent, err := keys.Verify(text, when)
			require.NoError(t, err, "%s at %s", kind, when)
			require.Equal(t, "edge-1", agent)
		}
		require.True(t, keys.Current(text, "edge-1", now))
		require.False(t, keys.Current(text, "edge-2", now))
	}
}

// What a token says is what existing installations put there and look for.
func TestTokensAreThoseOfExistingInstallations(t *testing.T) {
	text := fresh(t, token.RSA)
	mine, err := parsed(t, text).Issue("edge-1", now)
	require.NoError(t, err)
	parts := strings.Split(mine, ".")
	require.Len(t, parts, 3)
	said := map[string]any{}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(body, &said))
	require.Equal(t, map[string]any{
		"iss": "argocd-agent-server", "aud": []any{"argocd-agent-server-resource-proxy"}, "sub": "edge-1", "iat": float64(now.Unix()),
	}, said)

	theirs, err := jwt.NewWithClaims(jwt.SigningMethodRS512, jwt.MapClaims{
		"iss": "argocd-agent-server", "aud": "argocd-agent-server-resource-proxy", "sub": "edge-1",
		"iat": now.Unix(), "nbf": now.Unix(), "jti": "8c3f",
	}).SignedString(secret(t, text))
	require.NoError(t, err)
	agent, err := parsed(t, text).Verify(theirs, now)
	require.NoError(t, err)
	require.Equal(t, "edge-1", agent)
}

// After a rotation tokens of the key before are good for as long as that is kept, and known to
// be due for another.
func TestKeysRotateWithOverlap(t *testing.T) {
	before, after := fresh(t, token.RSA), fresh(t, token.Ed25519)
	old, err := parsed(t, before).Issue("edge-1", now)
	require.NoError(t, err)
	both := parsed(t, after, before)
	agent, err := both.Verify(old, now)
	require.NoError(t, err)
	require.Equal(t, "edge-1", agent)
	require.False(t, both.Current(old, "edge-1", now))
	renewed, err := both.Issue("edge-1", now)
	require.NoError(t, err)
	require.True(t, both.Current(renewed, "edge-1", now))

	_, err = parsed(t, after).Verify(old, now)
	require.ErrorIs(t, err, token.ErrInvalid)
	agent, err = parsed(t, after).Verify(renewed, now)
	require.NoError(t, err)
	require.Equal(t, "edge-1", agent)

	text, err := token.Rotate(after, before)
	require.NoError(t, err)
	require.Equal(t, string(after)+string(before), string(text))
	first, err := token.First(text)
	require.NoError(t, err)
	require.Equal(t, string(after), string(first))
	for range token.MaxKeys - 2 {
		text, err = token.Rotate(after, text)
		require.NoError(t, err)
	}
	_, err = token.Rotate(after, text)
	require.ErrorContains(t, err, "there are more than 8")
	_, err = token.Rotate(after, []byte("no key"))
	require.ErrorContains(t, err, "not PEM")
}

// claims are those of a good token, changed.
func claims(change jwt.MapClaims) jwt.MapClaims {
	c := jwt.MapClaims{"iss": token.Issuer, "aud": token.Audience, "sub": "edge-1", "iat": now.Unix()}
	for k, v := range change {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

func TestWhatIsForgedIsRefused(t *testing.T) {
	text := fresh(t, token.RSA)
	key := secret(t, text).(*rsa.PrivateKey)
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	require.NoError(t, err)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	sign := func(m jwt.SigningMethod, key any, c jwt.MapClaims, header ...string) string {
		tok := jwt.NewWithClaims(m, c)
		for _, h := range header {
			tok.Header[h] = []string{h}
		}
		s, err := tok.SignedString(key)
		require.NoError(t, err)
		return s
	}
	good := sign(jwt.SigningMethodRS512, key, claims(nil))
	parts := strings.Split(good, ".")
	other := secret(t, fresh(t, token.RSA))
	raw := func(header, body string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(body)) + "."
	}
	body, err := json.Marshal(claims(nil))
	require.NoError(t, err)
	keys := parsed(t, text)
	for name, forged := range map[string]string{
		"nothing":                       "",
		"no token":                      "edge-1",
		"without a signature":           sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims(nil)),
		"none in capitals":              raw(`{"alg":"NONE","typ":"JWT"}`, string(body)),
		"a signature that is cut off":   parts[0] + "." + parts[1] + ".",
		"public key taken as a secret":  sign(jwt.SigningMethodHS512, public, claims(nil)),
		"its DER taken as a secret":     sign(jwt.SigningMethodHS256, der, claims(nil)),
		"the same key by another way":   sign(jwt.SigningMethodPS512, key, claims(nil)),
		"a shorter digest":              sign(jwt.SigningMethodRS256, key, claims(nil)),
		"another key":                   sign(jwt.SigningMethodRS512, other, claims(nil)),
		"another body":                  parts[0] + "." + strings.Split(sign(jwt.SigningMethodRS512, other, claims(jwt.MapClaims{"sub": "edge-2"})), ".")[1] + "." + parts[2],
		"another issuer":                sign(jwt.SigningMethodRS512, key, claims(jwt.MapClaims{"iss": "argocd"})),
		"no issuer":                     sign(jwt.SigningMethodRS512, key, claims(jwt.MapClaims{"iss": nil})),
		"a token for access":            sign(jwt.SigningMethodRS512, key, claims(jwt.MapClaims{"aud": "argocd-agent-server-access"})),
		"for two purposes":              sign(jwt.SigningMethodRS512, key, claims(jwt.MapClaims{"aud": []string{token.Audience, "argocd-agent-server-access"}})),
		"for no purpose":                sign(jwt.SigningMethodRS512, key, claims(jwt.MapClaims{"aud": nil})),
		"nobody":                        sign(jwt.SigningMethodRS512, key, claims(jwt.MapClaims{"sub": nil})),
		"a name that is none":           sign(jwt.SigningMethodRS512, key, claims(jwt.MapClaims{"sub": "edge-1/../edge-2"})),
		"a name that is a namespace's":  sign(jwt.SigningMethodRS512, key, claims(jwt.MapClaims{"sub": "kube-system"})),
		"a subject of an access token":  sign(jwt.SigningMethodRS512, key, claims(jwt.MapClaims{"sub": `{"clientID":"edge-1","mode":"managed"}`})),
		"expired":                       sign(jwt.SigningMethodRS512, key, claims(jwt.MapClaims{"exp": now.Add(-time.Hour).Unix()})),
		"not good yet":                  sign(jwt.SigningMethodRS512, key, claims(jwt.MapClaims{"nbf": now.Add(time.Hour).Unix()})),
		"it asks for what is not known": sign(jwt.SigningMethodRS512, key, claims(nil), "crit"),
		"padded":                        good + "==",
		"with a word before it":         "Bearer " + good,
		"with a fourth part":            good + ".x",
		"too large":                     good + strings.Repeat("A", token.MaxToken),
	} {
		agent, err := keys.Verify(forged, now)
		require.ErrorIs(t, err, token.ErrInvalid, name)
		require.Empty(t, agent, name)
	}
	agent, err := keys.Verify(good, now)
	require.NoError(t, err)
	require.Equal(t, "edge-1", agent)

	_, err = token.Keys{}.Verify(good, now)
	require.ErrorIs(t, err, token.ErrNoKey)
	_, err = token.Keys{}.Issue("edge-1", now)
	require.ErrorIs(t, err, token.ErrNoKey)
	_, err = token.Keys{{}}.Verify(good, now)
	require.ErrorIs(t, err, token.ErrInvalid)
	for _, name := range []string{"", "Edge", "a.b", "default", strings.Repeat("a", 64)} {
		_, err = keys.Issue(name, now)
		require.Error(t, err, name)
	}
}

func pkcs8(t *testing.T, key any) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func TestKeysAreReadInEveryForm(t *testing.T) {
	curve, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	sec1, err := x509.MarshalECPrivateKey(curve)
	require.NoError(t, err)
	rsaText := fresh(t, token.RSA)
	pkcs1 := x509.MarshalPKCS1PrivateKey(secret(t, rsaText).(*rsa.PrivateKey))
	text := append(pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6, 5}}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: sec1})...)
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: pkcs1})...)
	keys := parsed(t, text, []byte("\n"))
	require.Len(t, keys, 2)
	require.Equal(t, "ES384", keys[0].Algorithm())
	require.Equal(t, 384, keys[0].Size())
	require.Equal(t, "RS512", keys[1].Algorithm())
	require.Equal(t, token.MinBits, keys[1].Size())
	require.Equal(t, parsed(t, rsaText)[0].Fingerprint(), keys[1].Fingerprint(), "it is that of the key, not of its form")
	first, err := token.First(text)
	require.NoError(t, err)
	require.Equal(t, keys[0].Fingerprint(), parsed(t, first)[0].Fingerprint())
}

func TestBadKeysAreRefused(t *testing.T) {
	curve, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(curve.Public())
	require.NoError(t, err)
	good := string(fresh(t, token.Ed25519))
	for name, c := range map[string]struct{ text, says string }{
		"nothing":            {"", "there is no PEM block"},
		"no PEM":             {"secret", "something that is not PEM"},
		"rest that is none":  {good + "-----BEGIN PRIVATE KEY-----\n", "something that is not PEM"},
		"a public key":       {string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), `"PUBLIC KEY" is no secret key`},
		"broken":             {good + "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "PEM block 2: a secret key cannot be read"},
		"a curve of no name": {string(pkcs8(t, curve)), "no tokens are signed on curve P-224"},
		"too many":           {strings.Repeat(good, token.MaxKeys+1), "more than 8"},
		"too large":          {good + strings.Repeat(" ", 200<<10), "are more than"},
	} {
		_, err := token.ParseKeys([]byte(c.text))
		require.ErrorContains(t, err, c.says, name)
	}
	_, err = token.NewKey("dsa", 0)
	require.ErrorContains(t, err, `there is no kind "dsa"`)
	_, err = token.NewKey(token.RSA, 1024)
	require.ErrorContains(t, err, "1024 bits are not from 2048 to 8192")
}

// A key that gets into a log says which one it is, and nothing that is secret.
func TestKeysDoNotShowTheirSecret(t *testing.T) {
	text := fresh(t, token.Ed25519)
	key := parsed(t, text)[0]
	seed := secret(t, text).(ed25519.PrivateKey).Seed()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		for _, v := range []any{key, token.Keys{key}, struct{ K token.Key }{key}} {
			shown := fmt.Sprintf(verb, v)
			require.NotContains(t, shown, fmt.Sprintf("%x", seed), verb)
			require.NotContains(t, shown, strings.Trim(fmt.Sprint([]byte(seed)), "[]"), verb)
		}
	}
	require.Equal(t, "EdDSA key "+key.Fingerprint()[:16], key.String())
}
