package natslink

import (
	"testing"

	"github.com/argocd-fabric/argocd-agent/transport/linktest/tlstest"
)

// Agents come through a reverse proxy that speaks HTTP/1.1 only, and that ends the TLS of their
// websockets, or there is none.
var (
	inPlain = secured.ByWebsocket(tlstest.Websocket{Path: WebsocketPath})
	inTLS   = secured.ByWebsocket(tlstest.Websocket{Path: WebsocketPath, TLS: true})
)

// TestTrustByWebsocket: what is proven within a websocket is proven as it is without.
func TestTrustByWebsocket(t *testing.T) { tlstest.Run(t, inPlain) }

// TestScenario18_ASilentLineIsNoticedByWebsocket: see tlstest.SilentLine.
func TestScenario18_ASilentLineIsNoticedByWebsocket(t *testing.T) {
	t.Parallel()
	tlstest.SilentLine(t, inTLS)
}

func TestReverseProxyRestarts(t *testing.T) {
	for name, a := range map[string]tlstest.Adapter{"plain": inPlain, "TLS": inTLS} {
		t.Run(name, func(t *testing.T) { tlstest.ReverseProxyRestarts(t, a) })
	}
}
