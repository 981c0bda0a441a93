package identity

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"time"
)

// headerName is what a header may be called whose value a proxy can set. gRPC reads those that end
// in -bin otherwise, and has its own that begin with grpc-.
var headerName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*$`)

// header is the Method of agents that come through a proxy, which does TLS and writes in a header
// whom it has met: <Header>:<regex>. The principal itself is spoken to in plaintext, and believes
// nobody but a proxy.
func header(rest string, t Terms) (Method, error) {
	which, pattern, _ := strings.Cut(rest, ":")
	low := strings.ToLower(which)
	if !headerName.MatchString(which) || strings.HasPrefix(low, "grpc-") || strings.HasSuffix(low, "-bin") {
		return Method{}, fmt.Errorf("identity: %q begins with no name of a header, and a colon", rest)
	}
	name, err := matched(pattern, "header "+which)
	if err != nil {
		return Method{}, err
	}
	return Method{Source: plainly, Prove: func(_ *Credentials, s Shown) (Proof, error) {
		if !t.trusts(s.From) {
			return Proof{}, fmt.Errorf("identity: no proxy is at %s: say by --trusted-proxy-cidr where proxies are", hostOf(s.From))
		}
		var values []string
		if s.Header != nil {
			values = s.Header(which)
		}
		if len(values) > 1 { // the proxy's is not known from one that it has let pass
			return Proof{}, fmt.Errorf("identity: there are %d headers %s: the proxy has to replace what an agent has written", len(values), which)
		}
		agent, err := name(values)
		if err != nil {
			return Proof{}, err
		}
		return Proof{Agent: agent, stands: func(*credential, time.Time) error { return nil }}, nil
	}}, nil
}

// behindProxy is the Source of an agent that speaks in plaintext to a proxy beside it, which
// proves its name.
func behindProxy(rest string, _ Terms) (func(Kept) Source, error) {
	if rest != "" {
		return nil, fmt.Errorf("identity: header: nothing is to follow it, and not %q", rest)
	}
	return plainly, nil
}

// plainly is for who needs no certificates, nor anything else.
func plainly(Kept) Source {
	return func(context.Context) (Bundle, error) { return Bundle{Plain: true}, nil }
}

// trusts reports whether a proxy may be there: on this machine, or where it is said.
func (t Terms) trusts(from net.Addr) bool {
	switch a := from.(type) {
	case *net.UnixAddr:
		return true
	case *net.TCPAddr:
		ip := a.AddrPort().Addr().Unmap().WithZone("")
		for _, p := range t.Proxies {
			if p.Contains(ip) {
				return true
			}
		}
		return ip.IsLoopback()
	}
	return false
}

// hostOf returns where a connection comes from, without its port, which is another each time.
func hostOf(from net.Addr) string {
	if from == nil {
		return "an unknown address"
	}
	if host, _, err := net.SplitHostPort(from.String()); err == nil {
		return host
	}
	return from.String()
}

// ParseProxies reads where proxies are: CIDRs, such as 10.0.0.0/8, with a comma between them.
func ParseProxies(text string) (all []netip.Prefix, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		p, err := netip.ParsePrefix(part)
		switch {
		case err != nil:
			return nil, fmt.Errorf("identity: %q is no CIDR", part)
		case p.Bits() == 0:
			return nil, errors.New("identity: " + part + " is everywhere: anybody could say to be any agent")
		}
		all = append(all, p.Masked())
	}
	return all, nil
}
