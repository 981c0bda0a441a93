package identity_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

func TestMethods(t *testing.T) {
	uri := func(texts ...string) (all []*url.URL) {
		for _, text := range texts {
			u, err := url.Parse(text)
			require.NoError(t, err)
			all = append(all, u)
		}
		return all
	}
	edge := &x509.Certificate{
		Subject: pkix.Name{CommonName: "edge-1", Organization: []string{"plants"}},
		URIs:    uri("spiffe://example.com/agent/edge-2", "https://example.com/edge-3"),
	}
	for name, c := range map[string]struct {
		auth  string
		cert  *x509.Certificate
		agent string
		wrong string
	}{
		"common name":              {"", edge, "edge-1", ""},
		"subject":                  {`mtls:subject:CN=([^,]+),O=plants`, edge, "edge-1", ""},
		"part of a subject":        {`mtls:subject:CN=([^,]+)`, edge, "", `no subject of the certificate matches --auth: it has ["CN=edge-1,O=plants"]`},
		"URI":                      {`mtls:uri:spiffe://example[.]com/agent/(.+)`, edge, "edge-2", ""},
		"one of several":           {`mtls:uri:https://example.com/(.*)`, edge, "edge-3", ""},
		"other trust domain":       {`mtls:uri:spiffe://example[.]org/agent/(.+)`, edge, "", "no URI of the certificate matches"},
		"two names":                {`mtls:uri:.*/([^/]*)`, edge, "", `more than one name by --auth: ["edge-2" "edge-3"]`},
		"no URI":                   {`mtls:uri:(.*)`, &x509.Certificate{}, "", "it has []"},
		"a name that is none":      {`mtls:uri:(.*)`, &x509.Certificate{URIs: uri("spiffe://a/b")}, "", "is not a DNS-1123 label"},
		"a reserved name":          {`mtls:uri:spiffe://a/(.*)`, &x509.Certificate{URIs: uri("spiffe://a/argocd")}, "", "is reserved"},
		"nothing verified":         {`mtls:uri:(.*)`, nil, "", "no verified certificate"},
		"nothing verified by name": {"", nil, "", "no verified certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			method, err := identity.ParseMethod(c.auth, identity.Terms{})
			require.NoError(t, err)
			state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{edge}}
			if c.cert != nil {
				state.VerifiedChains = [][]*x509.Certificate{{c.cert}}
			}
			proof, err := method.Prove(nil, identity.Shown{TLS: &state})
			if c.wrong != "" {
				require.ErrorContains(t, err, c.wrong)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.agent, proof.Agent)
		})
	}
	for auth, want := range map[string]string{
		"mtls":               "begins with no method that is known: header, mtls:subject, mtls:uri, spiffe, userpass",
		"userpass:":          "no file is named",
		"mtls:uri:(":         "missing closing )",
		"mtls:subject:CN=.*": "has no group",
	} {
		_, err := identity.ParseMethod(auth, identity.Terms{})
		require.ErrorContains(t, err, want)
	}
}
