package scripts

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// natsKey is that of a script's NATS server among its values.
type natsKey struct{}

// A natsHost is a NATS server that holds buckets. It may be stopped and started again.
type natsHost struct {
	server  *server.Server
	options server.Options
}

func (h *natsHost) stop() {
	if h.server != nil {
		h.server.Shutdown()
		h.server.WaitForShutdown()
		h.server = nil
	}
}

// natsserver start DIR starts the script's NATS server, which asks for certificates of the CA
// in DIR and has the principal's, and sets NATS to its URL; natsserver stop stops it.
func natsServer(ts *testscript.TestScript, neg bool, args []string) {
	h := ts.Value(natsKey{}).(*natsHost)
	switch {
	case !neg && len(args) == 1 && args[0] == "stop":
		h.stop()
	case !neg && len(args) == 2 && args[0] == "start" && h.server == nil:
		if h.options.StoreDir == "" {
			dir := ts.MkAbs(args[1])
			secured, err := identity.Files{CA: dir + "/ca.crt", Cert: dir + "/principal.crt", Key: dir + "/principal.key"}.Credentials(time.Now())
			ts.Check(err)
			h.options = server.Options{
				Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: ts.MkAbs("nats.d"),
				TLS: true, TLSVerify: true, TLSTimeout: patience.Seconds(), TLSConfig: secured.Server(),
			}
		}
		s, err := server.NewServer(&h.options)
		ts.Check(err)
		h.server = s
		s.Start()
		if !s.ReadyForConnections(patience) {
			ts.Fatalf("the NATS server does not start")
		}
		ts.Setenv("NATS", s.ClientURL())
	default:
		ts.Fatalf("usage: natsserver start dir; natsserver stop")
	}
}

// kv put BUCKET KEY FILE and kv del BUCKET KEY do what the nats program does, with the
// certificate of an agent called admin; kv get BUCKET KEY REGEXP waits until the value
// matches; ! kv get BUCKET KEY until there is none. kv note BUCKET KEY NAME sets a variable to the
// value's revision, and kv same BUCKET KEY NAME checks that nobody has written it since.
func kv(ts *testscript.TestScript, neg bool, args []string) {
	pki := ts.MkAbs("pki")
	nc, err := nats.Connect(ts.Getenv("NATS"), nats.RootCAs(pki+"/ca.crt"), nats.ClientCert(pki+"/agents/admin.crt", pki+"/agents/admin.key"))
	ts.Check(err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if len(args) < 3 {
		ts.Fatalf("usage: kv put|del|get bucket key ...")
	}
	store, err := js.KeyValue(ctx, args[1])
	ts.Check(err)
	switch {
	case !neg && args[0] == "put" && len(args) == 4:
		_, err := store.Put(ctx, args[2], []byte(ts.ReadFile(args[3])))
		ts.Check(err)
	case !neg && args[0] == "del" && len(args) == 3:
		ts.Check(store.Delete(ctx, args[2]))
	case neg && args[0] == "get" && len(args) == 3:
		awaitValue(ctx, ts, store, args[2], nil)
	case !neg && args[0] == "get" && len(args) == 4:
		awaitValue(ctx, ts, store, args[2], regexp.MustCompile(args[3]))
	case !neg && (args[0] == "note" || args[0] == "same") && len(args) == 4:
		e, err := store.Get(ctx, args[2])
		ts.Check(err)
		at := strconv.FormatUint(e.Revision(), 10)
		if args[0] == "note" {
			ts.Setenv(args[3], at)
		} else if ts.Getenv(args[3]) != at {
			ts.Fatalf("%s was written: %s", args[2], e.Value())
		}
	default:
		ts.Fatalf("usage: kv note|same bucket key name; kv put bucket key file; kv del bucket key; kv get bucket key regexp; ! kv get bucket key")
	}
}

// awaitValue waits until the value of a key matches; nil matches if there is none.
func awaitValue(ctx context.Context, ts *testscript.TestScript, store jetstream.KeyValue, key string, what *regexp.Regexp) {
	got := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		e, err := store.Get(ctx, key)
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound) && what == nil:
			return
		case err != nil:
			got = err.Error()
			continue
		}
		if got = string(e.Value()); what != nil && what.MatchString(got) {
			return
		}
	}
	ts.Fatalf("%s is in the end: %s", key, got)
}
