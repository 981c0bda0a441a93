package command

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"

	"github.com/urfave/cli/v2"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
)

// pprofFlags are those by which a program lets itself be profiled.
func pprofFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.String("pprof-listen", "", "", "the loopback `address` at which the program may be profiled, under /debug/pprof, such as 127.0.0.1:6060; empty is off"),
		f.Int("pprof-port", "", 0, shell.Port, "the `port` of 127.0.0.1 for the same; 0 is off"),
	}
}

// pprofAddress returns where the program may be profiled; "" is nowhere. A profile shows what is
// in memory, Secrets too, and takes time of whoever makes it: nobody reaches it from outside.
func pprofAddress(c *cli.Context) (string, error) {
	port, text := c.Int("pprof-port"), c.String("pprof-listen")
	switch {
	case text == "" && port == 0:
		return "", nil
	case text == "":
		return fmt.Sprint("127.0.0.1:", port), nil
	case port != 0:
		return "", &shell.UsageError{Where: "--pprof-listen", What: "--pprof-port says another address", Advice: "write one of them"}
	}
	host, _, err := net.SplitHostPort(text)
	if _, bad := shell.Address(c, "pprof-listen"); err != nil || bad != nil {
		return "", &shell.UsageError{Where: "--pprof-listen", What: fmt.Sprintf("%q is no address", text), Advice: "write one such as 127.0.0.1:6060"}
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", &shell.UsageError{Where: "--pprof-listen", What: fmt.Sprintf("%q can be reached from outside", text), Advice: "write one of the loopback interface, such as 127.0.0.1:6060, and reach it by kubectl port-forward"}
	}
	return text, nil
}

// profiles serves profiles at an address until ctx is done; "" is not at all.
func profiles(address string) func(context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	for name, f := range map[string]http.HandlerFunc{"cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace} {
		mux.HandleFunc("/debug/pprof/"+name, f)
	}
	return page{"pprof-listen", address, mux}.Run
}
