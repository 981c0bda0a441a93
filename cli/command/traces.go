package command

import (
	"os"
	"strconv"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/cli/tracing"
	"github.com/argocd-fabric/argocd-agent/sync/trail"
)

func traceFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.String("otlp-address", "", "", "the `address`, host:port, of an OpenTelemetry collector (OTLP over gRPC) that is sent traces of changes; empty is off"),
		f.Bool("otlp-insecure", "", "send traces in plaintext; else over TLS, with the system's CAs or that of OTEL_EXPORTER_OTLP_CERTIFICATE"),
		f.String("otlp-sample-ratio", "", "1", "the `ratio`, 0 to 1, of the traces that begin here and are sent"),
	}
}

// newTraces returns what sends traces, nil if nothing is to.
func newTraces(c *cli.Context, log *zap.Logger) (*tracing.Tracing, error) {
	address, ratio := c.String("otlp-address"), c.String("otlp-sample-ratio")
	part, err := strconv.ParseFloat(ratio, 64)
	if err != nil || !(part >= 0 && part <= 1) {
		return nil, &shell.UsageError{Where: "--otlp-sample-ratio", What: strconv.Quote(ratio) + " is no ratio", Advice: "write a number from 0 to 1"}
	}
	if address == "" {
		return nil, nil
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown" // it only names who sends
	}
	t, err := tracing.New(tracing.Config{
		Address: address, Insecure: c.Bool("otlp-insecure"), Ratio: part, Service: "argocd-agent-" + c.Command.Name, Instance: host, Version: version(), Log: log,
	})
	if err != nil {
		return nil, &shell.UsageError{Where: "--otlp-address", What: err.Error(), Advice: "write host:port of an OTLP receiver that speaks gRPC"}
	}
	return t, nil
}

// witness returns who makes traces of an agent's changes; nil is nobody.
func (p program) witness(agent string) trail.Witness {
	if p.traces == nil {
		return nil
	}
	return p.traces.Witness(agent)
}
