package kubestore

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is written is what Argo CD reads, and what else was there stays.
func TestConnectionIsWithinTheConfig(t *testing.T) {
	c := Connection{Token: "a.b.c", CA: []byte("PEM")}
	for config, want := range map[string]string{
		"":   `{"bearerToken":"a.b.c","tlsClientConfig":{"caData":"UEVN"}}`,
		"{}": `{"bearerToken":"a.b.c","tlsClientConfig":{"caData":"UEVN"}}`,
		`{"bearerToken":"old","proxyUrl":"http://proxy","tlsClientConfig":{"insecure":true,"serverName":"hub","caData":"T0xE","certData":"QQ==","keyData":"QQ=="}}`: `{"bearerToken":"a.b.c","proxyUrl":"http://proxy","tlsClientConfig":{"caData":"UEVN","certData":"QQ==","keyData":"QQ==","serverName":"hub"}}`,
		`{"tlsClientConfig":null}`: `{"bearerToken":"a.b.c","tlsClientConfig":{"caData":"UEVN"}}`,
		"null":                     `{"bearerToken":"a.b.c","tlsClientConfig":{"caData":"UEVN"}}`,
		"no JSON":                  `{"bearerToken":"a.b.c","tlsClientConfig":{"caData":"UEVN"}}`,
	} {
		text := c.within([]byte(config))
		require.JSONEq(t, want, string(text), config)
		is := readConnection(text)
		require.Equal(t, c.Token, is.Token)
		require.Equal(t, c.CA, is.CA)
		require.True(t, is.Proves())
	}
	require.JSONEq(t, "{}", string(Connection{}.within(nil)))
	require.JSONEq(t, `{"tlsClientConfig":{"insecure":true}}`, string(Connection{}.within([]byte(`{"bearerToken":"old","tlsClientConfig":{"insecure":true,"caData":"T0xE"}}`))))
}

func TestConnectionSaysWhatThereIs(t *testing.T) {
	for config, want := range map[string]string{
		"":                    "none",
		"{}":                  "none",
		`{"bearerToken":"t"`:  "none",
		`{"bearerToken":"t"}`: "a bearer token",
		`{"tlsClientConfig":{"certData":"QQ==","keyData":"QQ=="}}`:                   "a client certificate",
		`{"tlsClientConfig":{"certData":"QQ=="}}`:                                    "none",
		`{"bearerToken":"t","tlsClientConfig":{"certData":"QQ==","keyData":"QQ=="}}`: "a bearer token and a client certificate",
	} {
		is := readConnection([]byte(config))
		require.Equal(t, want, is.String(), config)
		require.Equal(t, want != "none", is.Proves())
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(verb, Registration{Connection: Connection{Token: "secret"}}), "secret", verb)
	}
}
