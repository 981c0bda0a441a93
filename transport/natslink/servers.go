package natslink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"go.uber.org/zap"
)

// oldestServer is the oldest version of a server elsewhere that is taken: the isolation of agents
// in one account rests on how it checks what leaf nodes say and hear, and is tested with it. Of
// those before, some lack isolate_leafnode_interest, or tombstones that are forgotten.
var oldestServer = [2]int{2, 15}

// Check returns what is wrong with where the servers are said to be.
func (c ClusterConfig) Check() error {
	if len(c.URLs) == 0 {
		return errors.New("no URL of a server")
	}
	if c.Replicas != 1 && c.Replicas != 3 && c.Replicas != 5 {
		return fmt.Errorf("streams can be on 1, 3 or 5 servers, not on %d", c.Replicas)
	}
	for _, text := range c.URLs {
		u, err := url.Parse(text)
		if err != nil || u.Hostname() == "" || u.Port() == "" || u.User != nil || u.Path != "" {
			return errors.New("a URL of a server is tls://host:port, without a user or anything else")
		}
		if port, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || port == 0 {
			return fmt.Errorf("%s: there is no port %s", u.Host, u.Port())
		}
		ip := net.ParseIP(u.Hostname())
		switch {
		case u.Scheme == "tls" && c.Credentials != nil, u.Scheme == "nats" && c.Credentials == nil && ip != nil && ip.IsLoopback():
		case u.Scheme == "tls":
			return fmt.Errorf("%s needs a certificate", text)
		default:
			return fmt.Errorf("%s would be spoken to without TLS, which is for the loopback interface and for all URLs or none", text)
		}
	}
	return nil
}

// asToken has a connection made that this process lets in itself.
func (k *cluster) asToken(account string) nats.Option {
	return nats.TokenHandler(func() string { return k.answer.token(account) })
}

// dial connects to one of the servers, to the first-th if it is there, and again to the next of them
// whenever it is gone: so several connections are to several servers. Servers that are only about to start
// are waited for.
func (k *cluster) dial(ctx context.Context, first int, what, inbox string, as nats.Option) (*nats.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	told := false
	for asked := 0; ; {
		nc, err := k.dialOnce(first, what, inbox, as)
		if err == nil {
			return nc, nil
		}
		if !told {
			told = true
			k.config.Logger.Warn("cannot connect to the NATS servers, which is tried again", zap.String("connection", what), zap.Error(err))
		}
		if errors.Is(err, nats.ErrAuthorization) || isLate(err) {
			asked++
		}
		if asked == dialAsks || errors.Is(err, errCreds) || sleep(ctx, 2*reconnectPause) != nil {
			return nil, fmt.Errorf("natslink: connect to %s: %w%s", strings.Join(k.to.URLs, ","), err, k.adviceOn(err))
		}
	}
}

// dialAsks is how often a connection is not let in before that is taken for what it is. A server
// that does not know a user asks who it is, and it is late if nobody answers.
const dialAsks = 3

// adviceOn says what to do about an error in connecting.
func (k *cluster) adviceOn(err error) string {
	switch {
	case !errors.Is(err, nats.ErrAuthorization) && !isLate(err):
		return ""
	case k.to.Operator != nil:
		return ": the servers must be in operator mode, and their resolver have the JWT of the user's account, which names the user in auth_users (nsc edit authcallout) and has not revoked it"
	}
	return ": the servers must have the principal's user in the account " + hubAccount + ", and in auth_callout's auth_users; in operator mode they know it by a JWT (--nats-creds)"
}

func (k *cluster) dialOnce(first int, what, inbox string, as nats.Option) (*nats.Conn, error) {
	all := make([]string, len(k.to.URLs))
	for i := range all {
		u := k.to.URLs[(first+i)%len(all)]
		all[i] = "nats://" + u[strings.Index(u, "://")+3:] // TLS is the dialer's
	}
	return nats.Connect(strings.Join(all, ","), as,
		nats.Name("argocd-agent principal, "+what),
		nats.SetCustomDialer(plug{k.to}),
		nats.SkipHostLookup(),
		nats.DontRandomize(),
		nats.IgnoreDiscoveredServers(),
		nats.IgnoreAuthErrorAbort(), // it is this process that lets itself in
		nats.CustomInboxPrefix(inbox),
		nats.Timeout(tlsTimeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectPause),
		nats.ReconnectJitter(reconnectPause, reconnectPause),
		nats.ReconnectBufSize(-1), // what cannot be said now is said anew
		nats.PingInterval(k.config.Heartbeat),
		nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			k.config.Logger.Warn("NATS connection to the servers", zap.String("connection", what), zap.Error(err))
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err == nil {
				return // it was closed here
			}
			k.config.Logger.Info("NATS connection to a server has ended; another is made", zap.String("connection", what), zap.Error(err))
		}),
	)
}

// A plug dials a server, with TLS from the first byte if there is any.
type plug struct{ to ClusterConfig }

// SkipTLSHandshake says that Dial has made it.
func (plug) SkipTLSHandshake() bool { return true }

// Dial implements nats.CustomDialer.
func (p plug) Dial(network, address string) (net.Conn, error) {
	dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, network, address) }
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	if p.to.Credentials == nil {
		return dial(ctx)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	return overTLS(dial, p.to.Credentials.Client(host), dialTimeout)(ctx)
}

// checkStore finds out whether the server that is connected to can keep streams.
func (k *cluster) checkStore(ctx context.Context, js jetstream.JetStream) error {
	nc := js.Conn()
	fail := func(what, advice string) error {
		return fmt.Errorf("natslink: the NATS server at %s %s: %s", nc.ConnectedAddr(), what, advice)
	}
	switch {
	case tooOld(nc.ConnectedServerVersion()):
		return fail("is of version "+nc.ConnectedServerVersion(), fmt.Sprintf("it must be %d.%d or newer", oldestServer[0], oldestServer[1]))
	case !nc.HeadersSupported():
		return fail("has no headers", "remove no_header_support from its configuration")
	case nc.MaxPayload() < maxPayload:
		return fail(fmt.Sprintf("takes messages of %d bytes", nc.MaxPayload()), "write max_payload: 8MB in its configuration")
	}
	told := false
	err := untilAnswered(ctx, func(ctx context.Context) error {
		_, err := js.AccountInfo(ctx)
		if err != nil && !told {
			told = true
			k.config.Logger.Warn("the NATS servers do not say yet what they keep; they are asked again", zap.Error(err))
		}
		return err
	})
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		advice := "write jetstream: enabled in the account " + hubAccount + ", and a jetstream block, in its configuration"
		if k.to.Operator != nil {
			advice = "give the account room in its JWT (nsc edit account --name " + hubAccount + " --js-enable 0), and the server a jetstream block in its configuration"
		}
		return fail("keeps no streams for this user: "+err.Error(), advice)
	case err != nil:
		return fail("does not say what it keeps: "+err.Error(), "see that most servers of its cluster run")
	}
	return nil
}

// storeAnswer is how long one answer about streams is waited for before it is asked again.
const storeAnswer = 3 * time.Second

// untilAnswered calls f, which asks about streams, until there is an answer that is not that the servers
// have no leader, or for as long as servers that start may take. What is asked of a cluster without a leader
// nobody answers, then or later; so each call of f has a context that is done soon.
func untilAnswered(ctx context.Context, f func(context.Context) error) error {
	until := time.Now().Add(connectPatience)
	for {
		once, cancel := context.WithTimeout(ctx, storeAnswer)
		err := f(once)
		cancel()
		late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
		if err == nil || !late && !electing(err) || time.Now().After(until) || sleep(ctx, 5*reconnectPause) != nil {
			return err
		}
	}
}

// unanswered says what an error means in connecting as who is let in by this process itself.
func (k *cluster) unanswered(_ context.Context, err error) error {
	user := "the principal's user"
	if _, public, e := keyOf(k.to.User, nkeys.PrefixByteUser); e == nil {
		user = public
	}
	return fmt.Errorf("natslink: the NATS servers do not let in whom this principal lets in: write accounts %s and %s, system_account: %s, and authorization { auth_callout { issuer: %s, auth_users: [ %s ], account: %s } } in their configuration: %w",
		agentsAccount, systemAccount, systemAccount, k.answer.public, user, hubAccount, err)
}

// checkServers finds out whether all servers that are there are as they must be.
func (k *cluster) checkServers(ctx context.Context) error {
	all, err := ping[server.Varz](ctx, k.sys.Load(), "VARZ", struct{}{})
	if err != nil {
		return err
	}
	for _, s := range all {
		switch v := s.Data; {
		case tooOld(v.Version):
			return fmt.Errorf("natslink: the NATS server %s is of version %s: it must be %d.%d or newer", v.Name, v.Version, oldestServer[0], oldestServer[1])
		case v.MaxPayload < maxPayload:
			return fmt.Errorf("natslink: the NATS server %s takes messages of %d bytes: write max_payload: 8MB in its configuration", v.Name, v.MaxPayload)
		}
	}
	if n := len(all); n > 0 && n < k.to.Replicas {
		k.config.Logger.Warn("fewer NATS servers are there than each stream is to be on", zap.Int("servers", n), zap.Int("replicas", k.to.Replicas))
	}
	return nil
}

// tooOld reports whether a version of a server is not taken.
func tooOld(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 3 {
		return true
	}
	major, err := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return err != nil || err2 != nil || major < oldestServer[0] || major == oldestServer[0] && minor < oldestServer[1]
}

// A pong is what one server answers.
type pong[T any] struct {
	Server *server.ServerInfo `json:"server"`
	Data   *T                 `json:"data"`
}

// gather is how long the answers of all servers are waited for, after the last of them.
const gather = 500 * time.Millisecond

// active returns how many servers there are, as one of them says, or more than there can be. One that is
// killed is counted for a while.
func active(ctx context.Context, nc *nats.Conn) int {
	ctx, cancel := context.WithTimeout(ctx, gather)
	defer cancel()
	var answer server.ServerStatsMsg
	m, err := nc.RequestWithContext(ctx, "$SYS.REQ.SERVER.PING.STATSZ", nil)
	if err != nil || json.Unmarshal(m.Data, &answer) != nil || answer.Stats.ActiveServers == 0 {
		return math.MaxInt
	}
	return answer.Stats.ActiveServers
}

// ping asks all servers something, and returns the answers of those that answer. It waits for no more once
// there are as many as servers.
func ping[T any](ctx context.Context, nc *nats.Conn, what string, options any) ([]pong[T], error) {
	fail := func(err error) ([]pong[T], error) {
		return nil, fmt.Errorf("natslink: ask the servers %s: %w", what, err)
	}
	request, err := json.Marshal(options)
	if err != nil {
		return fail(err)
	}
	servers := active(ctx, nc)
	answers := make(chan *nats.Msg, 64)
	sub, err := nc.ChanSubscribe(nc.NewInbox(), answers)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = sub.Unsubscribe() }() // it fails only once the connection is closed
	if err := nc.PublishRequest("$SYS.REQ.SERVER.PING."+what, sub.Subject, request); err != nil {
		return fail(err)
	}
	var all []pong[T]
	late := time.NewTimer(gather)
	defer late.Stop()
	for len(all) < servers {
		select {
		case m := <-answers:
			var p pong[T]
			if err := json.Unmarshal(m.Data, &p); err == nil && p.Server != nil && p.Data != nil {
				all = append(all, p)
			}
			late.Reset(gather)
		case <-late.C:
			return all, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return all, nil
}
