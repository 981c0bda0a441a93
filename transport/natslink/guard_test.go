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
		g := newGuard(nil, nil, nil, zap.NewNop())
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
		g.register("other")
		time.Sleep(time.Second)
		g.register("early")
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
	}, tlstest.NewAuthority(t).Server(t), nil, zap.New(core))
	for range 2 {
		err := g.admit(caller{
			kind: server.LEAF, tls: &tls.ConnectionState{},
			where: func() net.Addr { return newEntrance(zap.NewNop()).origin(nil) },
			enter: func(string) error { return errors.New("not reached") },
		})
		require.ErrorIs(t, err, errHungUp)
		require.Zero(t, g.session("north"))
		g.register("north")
	}
	require.Zero(t, logged.Len())
}
