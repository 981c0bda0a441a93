package scripts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/argocd-fabric/argocd-agent/cli/natskeys"
	"github.com/argocd-fabric/argocd-agent/cli/natsservers"
)

// natsProgram is nats-server as a page starts it, with -c and its configuration, until a signal.
func natsProgram() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := natsservers.Run(ctx, os.Args[2:], func() {}); !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// natscluster start DIR N starts N NATS servers by deploy/nats, with the keys that nats init has made in
// DIR, and sets NATS_URLS to where the principal finds them, and NATS_LEAF and NATS_CLIENT to the ports
// of one of them for agents. They end with the script.
func natsCluster(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 || args[0] != "start" {
		ts.Fatalf("usage: natscluster start dir n")
	}
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	keys := natskeys.Set{Servers: map[string][]byte{}}
	made := filepath.Join(ts.MkAbs(args[1]), "nats")
	known := natskeys.Keys
	if _, err := os.Stat(filepath.Join(made, natskeys.Accounts)); err == nil {
		known = natskeys.Accounts // in operator mode
	}
	for _, name := range []string{known, natskeys.Routes, natskeys.Cert, natskeys.Key, natskeys.CA} {
		keys.Servers[name], err = os.ReadFile(filepath.Join(made, name))
		ts.Check(err)
	}
	places, err := natsservers.Free(ts.MkAbs("servers"), n)
	ts.Check(err)
	paths, err := natsservers.Write(keys, places...)
	ts.Check(err)
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- natsservers.Run(ctx, paths, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		stop()
		ts.Fatalf("%v", err)
	}
	ts.Defer(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			ts.Logf("%v", err)
		}
	})
	var urls []string
	for _, p := range places {
		urls = append(urls, p.URL())
	}
	ts.Setenv("NATS_URLS", strings.Join(urls, ","))
	ts.Setenv("NATS_LEAF", strconv.Itoa(places[0].Leaf))
	ts.Setenv("NATS_CLIENT", strconv.Itoa(places[0].Client))
}
