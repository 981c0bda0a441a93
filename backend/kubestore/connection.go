package kubestore

import (
	"encoding/json"
	"maps"
)

// A Connection is how the hub's Argo CD proves at the principal's resource proxy whose cluster
// it means, and knows the proxy. The zero Connection is none. It is in the field config of a
// cluster secret, as JSON, with whatever else Argo CD reads there.
type Connection struct {
	Token string // the bearer token that names the agent, a secret
	CA    []byte // of the proxy's certificate, as PEM; empty is one that the system knows
	// Certificate says that there is a client certificate with its key. It is for who made it
	// to renew: what is written here leaves it as it is.
	Certificate bool
}

// Proves reports whether Argo CD has anything to prove with that it means the agent's cluster.
func (c Connection) Proves() bool { return c.Token != "" || c.Certificate }

// String tells what there is, and no secret.
func (c Connection) String() string {
	switch {
	case c.Token != "" && c.Certificate:
		return "a bearer token and a client certificate"
	case c.Token != "":
		return "a bearer token"
	case c.Certificate:
		return "a client certificate"
	}
	return "none"
}

// GoString is String.
func (c Connection) GoString() string { return c.String() }

// readConnection reads the Connection in the field config of a cluster secret. What Argo CD
// cannot read either is none.
func readConnection(config []byte) Connection {
	var is struct {
		Token string `json:"bearerToken"`
		TLS   struct {
			CA   []byte `json:"caData"`
			Cert []byte `json:"certData"`
			Key  []byte `json:"keyData"`
		} `json:"tlsClientConfig"`
	}
	if json.Unmarshal(config, &is) != nil {
		return Connection{}
	}
	return Connection{is.Token, is.TLS.CA, len(is.TLS.Cert) > 0 && len(is.TLS.Key) > 0}
}

// within returns the field config of a cluster secret with the token and the CA of c. What else
// is there stays, unless it cannot be read.
func (c Connection) within(config []byte) []byte {
	is, security := map[string]any{}, map[string]any{}
	if json.Unmarshal(config, &is) != nil || is == nil {
		is = map[string]any{}
	}
	if t, ok := is["tlsClientConfig"].(map[string]any); ok {
		security = maps.Clone(t)
	}
	put := func(in map[string]any, key string, value any, there bool) {
		if in[key] = value; !there {
			delete(in, key)
		}
	}
	put(security, "caData", c.CA, len(c.CA) > 0)
	if len(c.CA) > 0 {
		delete(security, "insecure") // Argo CD does not take both
	}
	put(is, "bearerToken", c.Token, c.Token != "")
	put(is, "tlsClientConfig", security, len(security) > 0)
	text, err := json.Marshal(is)
	if err != nil {
		panic("kubestore: write config: " + err.Error()) // of texts and what was JSON
	}
	return text
}
