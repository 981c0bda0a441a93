package natslink

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
)

// An agent that dials before the hub knows of it waits at the door, and no longer than it
// must.
func TestAgentsWaitAtTheDoorOfAHubThatHasJustStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(nil, nil, nil, newEntrance(zap.NewNop()).origin, zap.NewNop())
		wait := func(agent string) time.Duration {
			began := time.Now()
			g.await(agent)
			return time.Since(began)
		}
		require.Zero(t, wait("early"), "it does not run")
		g.open()
		waited := make(chan time.Duration)
		go func() { waited <- wait("early") }()
		synctest.Wait()
		g.register("other", func() (*server.User, error) { return nil, nil })
		time.Sleep(time.Second)
		g.register("early", func() (*server.User, error) { return nil, nil })
		require.Equal(t, time.Second, <-waited)
		require.Zero(t, wait("early"))
		require.Equal(t, atDoor, wait("stranger"))
		go func() { waited <- wait("stranger") }()
		synctest.Wait()
		g.close()
		require.Zero(t, <-waited, "when the hub ends nobody waits")
		g.open()
		time.Sleep(2 * settling)
		require.Zero(t, wait("stranger"), "by now it is known who there is")
	})
}

// A connection that has ended while it waited at the door is let go, and nobody is told.
func TestConnectionThatEndsAtTheDoor(t *testing.T) {
	core, logged := observer.New(zap.DebugLevel)
	g := newGuard(func(*identity.Credentials, identity.Shown) (identity.Proof, error) {
		return identity.Proof{Agent: "north"}, nil
	}, tlstest.NewAuthority(t).Server(t), nil, newEntrance(zap.NewNop()).origin, zap.New(core))
	for range 2 {
		require.False(t, g.admit(ended{}))
		require.Zero(t, g.session("north"))
		g.register("north", func() (*server.User, error) { return nil, errors.New("not reached") })
	}
	require.Zero(t, logged.Len())
}

// An ended connection is what the server has of one.
type ended struct{ server.ClientAuthentication }

func (ended) Kind() int                                   { return server.LEAF }
func (ended) GetTLSConnectionState() *tls.ConnectionState { return &tls.ConnectionState{} }
func (ended) GetOpts() *server.ClientOpts                 { return &server.ClientOpts{} }
func (ended) RemoteAddress() net.Addr                     { return nil }
