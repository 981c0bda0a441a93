package grpclink

import (
	"context"
	"encoding/base64"
	"net/http"
	"sync"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// authorization is the header in which an agent without a certificate says who it is.
const authorization = "authorization"

// An acquaintance is what is known of a connection. It is not known by that who makes a call: a
// proxy may carry those of several agents by one connection, and each says for itself whose it is.
type acquaintance struct {
	credentials.AuthInfo
	mu sync.Mutex // one password is checked at a time, see prove
}

// prove returns who has made a call.
func (a *acquaintance) prove(ctx context.Context, who func(identity.Shown) (identity.Proof, error)) (identity.Proof, error) {
	said, _ := metadata.FromIncomingContext(ctx)
	s := identity.Shown{Login: loginOf(said.Get(authorization)), Header: said.Get}
	if info, ok := a.AuthInfo.(credentials.TLSInfo); ok {
		s.TLS = &info.State
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return who(s)
}

// loginOf returns the Login in a header; zero if there is none.
func loginOf(header []string) identity.Login {
	r := http.Request{Header: http.Header{"Authorization": header}}
	user, password, _ := r.BasicAuth()
	return identity.Login{User: user, Password: password}
}

// A saying has each call of an agent say the Login that its Credentials have then, if any. It
// implements credentials.PerRPCCredentials.
type saying struct{ own *identity.Credentials }

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (s saying) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	l := s.own.Login()
	if l == (identity.Login{}) {
		return nil, nil
	}
	return map[string]string{authorization: "Basic " + base64.StdEncoding.EncodeToString([]byte(l.User+":"+l.Password))}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. Who speaks in plaintext says
// nothing.
func (s saying) RequireTransportSecurity() bool { return !s.own.Plain() }
