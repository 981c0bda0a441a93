package natslink

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// storeUser is the user of the connections to the account that all JetStream of a server
// is in. No connection from outside is in that account.
const storeUser = "store"

// stopPatience is how long a server may take to stop. What was acked is on disk anyway.
const stopPatience = 10 * time.Second

// maxSubs bounds what one connection may subscribe to: a peer must not fill our memory with
// made-up subjects. It needs fewer than ten, but the hub's connections to the store, which
// the server does not treat differently, need two for each agent, and one for each read.
const maxSubs = 10_000

// maxClosed is of how many connections that have ended the server remembers what they were,
// for its monitoring. They are some KiB each.
const maxClosed = 64

// Bounds of connecting within the process, for machines that start a whole fleet.
const (
	connectPatience = 30 * time.Second
	connectAttempts = 5
)

// A node is the NATS server within this process, and the connections to it that this
// process makes. The server can be made anew, with the same settings and disk.
type node struct {
	*vault
	options *server.Options
	account string // that all JetStream is in
	log     *zap.Logger
	secret  string                   // what the connections of this process prove themselves with
	fatal   chan error               // why the server cannot go on; read by the keeper
	blame   func(string) bool        // told the server's errors; reports whether they are somebody else's fault
	making  sync.Mutex               // held while an account is made
	up      atomic.Pointer[upstream] // the connection to the hub that was found last

	mu     sync.Mutex
	server *server.Server
	lock   *os.File          // of the store directory, while the server runs
	users  map[string]string // account by user
}

// newNode returns a node. o lacks what is the same on both ends.
func newNode(o *server.Options, account string, log *zap.Logger, t *troubles, blame func(string) bool) *node {
	o.NoSigs = true
	o.NoLog = true
	o.DontListen = o.TLSConfig == nil // or else agents come as clients
	o.Cluster.NoAdvertise = true      // they are told of no other address
	o.JetStream = true
	o.DisableJetStreamBanner = true
	o.MaxPayload = maxPayload
	o.MaxControlLine = 16 << 10 // keys of 1 KiB, escaped
	o.MaxPingsOut = 2
	o.MaxSubs = maxSubs
	o.MaxClosedClients = maxClosed
	o.WriteDeadline = connectPatience // a goroutine of a busy process may be that late
	o.AuthTimeout = connectPatience.Seconds()
	o.LeafNode.AuthTimeout = connectPatience.Seconds()
	o.JetStreamLimits.DefaultMaxConsumers = -1
	if o.JetStreamMaxStore == 0 {
		o.JetStreamMaxStore = 1 << 50 // the streams have limits of their own
	}
	return &node{
		vault:   newVault(filepath.Join(o.StoreDir, server.JetStreamStoreDir, account, "streams"), t),
		options: o, account: account, log: log, secret: rand.Text(),
		fatal: make(chan error, 1), blame: blame,
		users: map[string]string{storeUser: account},
	}
}

// start starts the server. authenticate decides on connections from outside.
func (n *node) start(authenticate func(server.ClientAuthentication) bool) error {
	o := n.options.Clone()
	o.CustomClientAuthentication = doorman{n, authenticate}
	lock, err := lockDir(o.StoreDir)
	if err != nil {
		return err
	}
	s, err := server.NewServer(o)
	if err != nil {
		return errors.Join(fmt.Errorf("natslink: make server: %w", err), lock.Close())
	}
	s.SetLoggerV2(serverLogger{n.log, n.fail, n.suspect, n.blame}, false, false, false)
	n.mu.Lock()
	n.server, n.lock = s, lock
	n.mu.Unlock()
	s.Start()
	if err := n.ready(s); err != nil {
		n.stop()
		return err
	}
	n.settle(s)
	return nil
}

// settle keeps the ports that the server has chosen, for when it is made anew.
func (n *node) settle(s *server.Server) {
	if v, err := s.Varz(nil); err == nil && n.options.LeafNode.Port == -1 {
		n.options.LeafNode.Port = v.LeafNode.Port
	}
	if a, ok := s.Addr().(*net.TCPAddr); ok && n.options.Port == -1 {
		n.options.Port = a.Port
	}
	if a := s.MonitorAddr(); a != nil && n.options.HTTPPort == -1 {
		n.options.HTTPPort = a.Port
	}
}

// restart makes the server anew, with the same settings, and its directory if need be.
func (n *node) restart(authenticate func(server.ClientAuthentication) bool) error {
	n.gate.Lock()
	defer n.gate.Unlock()
	if err := prepareDir(n.options.StoreDir); err != nil {
		return err
	}
	n.stop()
	_ = n.failure() // of the server before
	return n.start(authenticate)
}

// reopen has the server close all streams and open them again.
func (n *node) reopen() error {
	n.gate.Lock()
	defer n.gate.Unlock()
	s, o := n.current(), n.options
	if err := s.ShutdownJetStream(); err != nil {
		return fmt.Errorf("natslink: close the store: %w", err)
	}
	// The server may have begun to do so itself.
	for patience := time.Now().Add(stopPatience); s.JetStreamConfig() != nil; {
		if time.Now().After(patience) {
			return errors.New("natslink: close the store: it does not close in time")
		}
		time.Sleep(10 * time.Millisecond)
	}
	config := &server.JetStreamConfig{StoreDir: o.StoreDir, MaxStore: o.JetStreamMaxStore, Domain: o.JetStreamDomain, SyncAlways: o.SyncAlways, Strict: true}
	if err := s.EnableJetStream(config); err != nil {
		return fmt.Errorf("natslink: open the store again: %w", err)
	}
	return n.enable(s)
}

func (n *node) ready(s *server.Server) error {
	if !s.ReadyForConnections(stopPatience) {
		return errors.Join(errors.New("natslink: start server: it does not get ready"), n.failure())
	}
	if err := n.enable(s); err != nil {
		return err
	}
	return n.failure()
}

// enable opens the streams.
func (n *node) enable(s *server.Server) error {
	account, err := n.accountOf(s, n.account)
	if err != nil {
		return err
	}
	unlimited := map[string]server.JetStreamAccountLimits{"": {MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1}}
	if err := account.EnableJetStream(unlimited, nil); err != nil {
		return fmt.Errorf("natslink: start server: open the store: %w", err)
	}
	return nil
}

// health says what the server says of the store: why it has closed all of it, if it has,
// and which streams take nothing in.
func (n *node) health() (broken map[string]error, disabled error) {
	broken = map[string]error{}
	for _, e := range n.current().Healthz(&server.HealthzOptions{Account: n.account, Details: true}).Errors {
		switch {
		case e.Type == server.HealthzErrorJetStream:
			disabled = fmt.Errorf("natslink: server: %s", e.Error)
		case e.Type == server.HealthzErrorStream && strings.Contains(e.Error, "write error"):
			broken[e.Stream] = fmt.Errorf("natslink: server: %s", e.Error)
		}
	}
	return broken, disabled
}

// fail notes why the server cannot go on.
func (n *node) fail(message string) {
	select {
	case n.fatal <- errors.New("natslink: server: " + message):
	default:
	}
}

func (n *node) failure() error {
	select {
	case err := <-n.fatal:
		return err
	default:
		return nil
	}
}

// stop stops the server, and waits for it for a bounded time.
func (n *node) stop() {
	s := n.current()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Shutdown()
		s.WaitForShutdown()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
		n.log.Warn("NATS server does not stop in time")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lock == nil {
		return
	}
	if err := n.lock.Close(); err != nil {
		n.log.Warn("lock of the store directory is not given up", zap.Error(err))
	}
	n.lock = nil
}

// locked returns the lock of the store directory, nil if there is none.
func (n *node) locked() *os.File {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lock
}

func (n *node) current() *server.Server {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.server
}

// InProcessConn returns a connection to the server that runs now.
func (n *node) InProcessConn() (net.Conn, error) { return n.current().InProcessConn() }

// admit lets this process connect as user of an account.
func (n *node) admit(user, account string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.users[user] = account
}

func (n *node) dismiss(user string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.users, user)
}

// connect connects this process as user, and again whenever the server is made anew.
func (n *node) connect(user, inbox string) (*nats.Conn, error) {
	began := time.Now()
	for attempt := 1; ; attempt++ {
		nc, err := n.connectOnce(user, inbox)
		if err == nil {
			return nc, nil
		}
		late := isLate(err) && time.Since(began) < connectPatience
		if attempt >= connectAttempts && !late {
			return nil, fmt.Errorf("natslink: connect %s: %w", user, err)
		}
	}
}

// isLate reports whether a connection has failed because the machine is very busy: the
// server's first ping, after a second or two, has come before its answer to the client's,
// which is all that the client expects.
func isLate(err error) bool { return strings.Contains(err.Error(), "expected 'PONG', got 'PING'") }

func (n *node) connectOnce(user, inbox string) (*nats.Conn, error) {
	return nats.Connect("",
		nats.InProcessServer(n),
		nats.UserInfo(user, n.secret),
		nats.CustomInboxPrefix(inbox),
		nats.Timeout(connectPatience),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(50*time.Millisecond),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			n.log.Warn("NATS connection within the process", zap.String("user", user), zap.Error(err))
		}),
	)
}

// A doorman decides who may connect.
type doorman struct {
	*node
	outside func(server.ClientAuthentication) bool
}

// Check admits the connections of this process, which alone come without TLS, by their secret,
// and lets others be decided on.
func (d doorman) Check(c server.ClientAuthentication) bool {
	if c.Kind() != server.CLIENT || c.GetTLSConnectionState() != nil {
		return d.outside(c)
	}
	o := c.GetOpts()
	if subtle.ConstantTimeCompare([]byte(o.Password), []byte(d.secret)) != 1 {
		return false
	}
	d.mu.Lock()
	account, known := d.users[o.Username]
	s := d.server
	d.mu.Unlock()
	if !known {
		return false
	}
	a, err := d.accountOf(s, account)
	if err != nil {
		d.log.Error("refused a connection of this process", zap.String("user", o.Username), zap.Error(err))
		return false
	}
	c.RegisterUser(&server.User{Username: o.Username, Account: a})
	return true
}
