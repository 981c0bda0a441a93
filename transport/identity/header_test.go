package identity_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

func TestHeaders(t *testing.T) {
	proxies, err := identity.ParseProxies("10.0.0.0/8, fd00::/8,192.0.2.7/32")
	require.NoError(t, err)
	method, err := identity.ParseMethod("header:X-Agent:spiffe://a/(.+)", identity.Terms{Proxies: proxies})
	require.NoError(t, err)
	b, err := method.Source(identity.Kept{})(t.Context())
	require.NoError(t, err)
	hub := newOffice(t).credentials(b)
	require.Nil(t, hub.Server())
	at := func(text string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text)) }
	one := []string{"spiffe://a/north"}
	for name, c := range map[string]struct {
		from   net.Addr
		values []string
		wrong  string
	}{
		"loopback":        {at("127.0.0.1:1"), one, ""},
		"loopback of v6":  {at("[::1]:1"), one, ""},
		"socket":          {&net.UnixAddr{Name: "@", Net: "unix"}, one, ""},
		"inside":          {at("10.255.0.1:1"), one, ""},
		"inside, mapped":  {at("[::ffff:10.0.0.1]:1"), one, ""},
		"inside, v6":      {at("[fd00::1%eth0]:1"), one, ""},
		"one host":        {at("192.0.2.7:1"), one, ""},
		"its neighbour":   {at("192.0.2.8:1"), one, "identity: no proxy is at 192.0.2.8: say by --trusted-proxy-cidr where proxies are"},
		"outside":         {at("11.0.0.1:1"), one, "no proxy is at 11.0.0.1"},
		"outside, v6":     {at("[fe00::1]:1"), one, "no proxy is at fe00::1"},
		"nowhere":         {nil, one, "no proxy is at an unknown address"},
		"nothing said":    {at("127.0.0.1:1"), nil, "no header X-Agent matches --auth: it has []"},
		"the same twice":  {at("127.0.0.1:1"), []string{one[0], one[0]}, "there are 2 headers X-Agent"},
		"another":         {at("127.0.0.1:1"), []string{"spiffe://b/north"}, `it has ["spiffe://b/north"]`},
		"one that is two": {at("127.0.0.1:1"), []string{"spiffe://a/north, spiffe://a/south"}, "is not a DNS-1123 label"},
		"reserved":        {at("127.0.0.1:1"), []string{"spiffe://a/argocd"}, "is reserved"},
	} {
		t.Run(name, func(t *testing.T) {
			proof, err := method.Prove(hub, identity.Shown{From: c.from, Header: func(name string) []string {
				require.Equal(t, "X-Agent", name)
				return c.values
			}})
			if c.wrong != "" {
				require.ErrorContains(t, err, c.wrong)
				require.Error(t, hub.Trusts(proof, newOffice(t).options.Now))
				return
			}
			require.NoError(t, err)
			require.Equal(t, "north", proof.Agent)
			require.NoError(t, hub.Trusts(proof, newOffice(t).options.Now))
		})
	}
	_, err = method.Prove(hub, identity.Shown{From: at("127.0.0.1:1")})
	require.ErrorContains(t, err, "no header X-Agent", "a transport without headers")

	proof, err := method.Prove(hub, identity.Shown{From: at("127.0.0.1:1"), Header: func(string) []string { return one }})
	require.NoError(t, err)
	hub.Block(identity.Blocklist{"north": ""})
	require.ErrorContains(t, hub.Trusts(proof, newOffice(t).options.Now), "agent north is on the blocklist")
}

func TestHeadersThatCannotWork(t *testing.T) {
	for _, auth := range []string{"header:", "header:(.*)", "header:a b:(.*)", "header::(.*)", "header:grpc-x:(.*)", "header:X-Bin:(.*)"} {
		_, err := identity.ParseMethod(auth, identity.Terms{})
		require.ErrorContains(t, err, "begins with no name of a header", auth)
	}
	_, err := identity.ParseMethod("header:X:.*", identity.Terms{})
	require.ErrorContains(t, err, "has no group")
	for text, want := range map[string]string{"10.0.0.1": "is no CIDR", "x": "is no CIDR", "10.0.0.0/8,0.0.0.0/0": "0.0.0.0/0 is everywhere", "::/0": "is everywhere"} {
		_, err := identity.ParseProxies(text)
		require.ErrorContains(t, err, want)
	}
	_, err = identity.ParseOwn("header:x", identity.Terms{})
	require.ErrorContains(t, err, "nothing is to follow it")
	own, err := identity.ParseOwn("header:", identity.Terms{})
	require.NoError(t, err)
	b, err := own(identity.Kept{})(t.Context())
	require.NoError(t, err)
	c := newOffice(t).credentials(b)
	require.Nil(t, c.Client("127.0.0.1"))
	require.NoError(t, c.Claims("north"))
	require.Empty(t, c.Name())
}
