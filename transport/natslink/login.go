package natslink

import (
	"encoding/base64"
	"errors"
	"strings"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// An agent without a certificate says its Login when it connects. User and password of a leaf
// node's remote are those of when its server was started; what answers the hub's challenge is
// asked for with each connection, so that a Login which is replaced needs no other server.

// errPlain refuses credentials by which a proxy is to say who an agent is.
var errPlain = errors.New("a connection over NATS has no headers in which a proxy could say who an agent is")

// sayLogin is what answers the challenge: user and password, with a colon between, and behind a
// zero byte what the agent says of itself, if that is anything.
func sayLogin(own *identity.Credentials, says string) server.SignatureHandler {
	return func([]byte) (string, []byte, error) {
		var answer string
		if l := own.Login(); l != (identity.Login{}) {
			answer = l.User + ":" + l.Password
		}
		if says != "" {
			answer += "\x00" + says
		}
		if answer == "" {
			return "", nil, nil
		}
		return "", []byte(answer), nil
	}
}

// loginOf returns the Login in such an answer, or the user and password that somebody else's
// leaf node has said; zero if there is none.
func loginOf(o *server.ClientOpts) identity.Login {
	if login, _, _ := strings.Cut(answerOf(o), "\x00"); login != "" {
		user, password, _ := strings.Cut(login, ":")
		return identity.Login{User: user, Password: password}
	}
	return identity.Login{User: o.Username, Password: o.Password}
}

// named is the name of a client's connection: the agent's, and behind a zero byte what it says of
// itself, if that is anything. A client has no challenge to answer, and a name is text.
func named(agent, says string) string {
	if says == "" {
		return agent
	}
	return agent + "\x00" + base64.RawURLEncoding.EncodeToString([]byte(says))
}

// saidBy returns what an agent says of itself in such an answer or name.
func saidBy(o *server.ClientOpts) string {
	_, says, _ := strings.Cut(answerOf(o), "\x00")
	if _, coded, in := strings.Cut(o.Name, "\x00"); in && says == "" {
		text, err := base64.RawURLEncoding.DecodeString(coded)
		if err != nil {
			return ""
		}
		says = string(text)
	}
	if len(says) > transport.MaxSaid {
		return ""
	}
	return says
}

// answerOf returns what answers the challenge, "" if that is nothing which an agent would say.
func answerOf(o *server.ClientOpts) string {
	said, err := base64.RawURLEncoding.DecodeString(o.Sig)
	if err != nil {
		return ""
	}
	return string(said)
}
