package kubeapi

import (
	"errors"
	"net/http"
	"strings"
	"time"
)

// maxToken is the length of the longest token, in bytes.
const maxToken = 16 << 10

// Callers find out which agent's cluster who calls a Hub is let to: that of the agent whose
// name a bearer token or a client certificate proves.
type Callers struct {
	// Certificate returns the agent that the verified certificate of a connection is of, which
	// shows one, as of a time.
	Certificate func(r *http.Request, at time.Time) (agent string, err error)
	// Token returns the agent that a token is for, as of a time.
	Token func(token string, at time.Time) (agent string, err error)
}

// Name is that of a HubConfig. A token has to hold where one is said, and so has a certificate
// where one is shown: if both are, for the same agent.
func (c Callers) Name(r *http.Request, at time.Time) (string, error) {
	token, said, err := bearer(r.Header)
	if err != nil {
		return "", err
	}
	shown := r.TLS != nil && len(r.TLS.PeerCertificates) > 0
	byToken, byCertificate := "", ""
	if said {
		if byToken, err = c.Token(token, at); err != nil {
			return "", err
		}
	}
	if shown {
		if byCertificate, err = c.Certificate(r, at); err != nil {
			return "", err
		}
	}
	switch {
	case !said && !shown:
		return "", errors.New("neither a client certificate nor a bearer token is given")
	case said && shown && byToken != byCertificate:
		return "", errors.New("client certificate and bearer token are of different agents")
	case said:
		return byToken, nil
	}
	return byCertificate, nil
}

// bearer returns the token that a request says, if it says any.
func bearer(h http.Header) (token string, said bool, err error) {
	all := h.Values("Authorization")
	if len(all) == 0 {
		return "", false, nil
	}
	kind, token, _ := strings.Cut(all[0], " ")
	token = strings.TrimSpace(token)
	switch {
	case len(all) > 1 || !strings.EqualFold(kind, "Bearer"):
		return "", true, errors.New("what authorizes is to be one bearer token")
	case len(token) > maxToken:
		return "", true, errors.New("the bearer token is too long")
	}
	return token, true, nil
}
