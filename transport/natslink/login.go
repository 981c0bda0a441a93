package natslink

import (
	"encoding/base64"
	"errors"
	"strings"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// An agent without a certificate says its Login when it connects. User and password of a leaf
// node's remote are those of when its server was started; what answers the hub's challenge is
// asked for with each connection, so that a Login which is replaced needs no other server.

// errPlain refuses credentials by which a proxy is to say who an agent is.
var errPlain = errors.New("a connection over NATS has no headers in which a proxy could say who an agent is")

// sayLogin is what answers the challenge: user and password, with a colon between.
func sayLogin(own *identity.Credentials) server.SignatureHandler {
	return func([]byte) (string, []byte, error) {
		l := own.Login()
		if l == (identity.Login{}) {
			return "", nil, nil
		}
		return "", []byte(l.User + ":" + l.Password), nil
	}
}

// loginOf returns the Login in such an answer, or the user and password that somebody else's
// leaf node has said; zero if there is none.
func loginOf(o *server.ClientOpts) identity.Login {
	l := identity.Login{User: o.Username, Password: o.Password}
	if said, err := base64.RawURLEncoding.DecodeString(o.Sig); err == nil && o.Sig != "" {
		l.User, l.Password, _ = strings.Cut(string(said), ":")
	}
	return l
}
