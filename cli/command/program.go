package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/cli/tracing"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/session"
)

// programFlags are those of every program that runs until it is told to end.
func programFlags(f shell.Flags, healthzPort, metricsPort int) []cli.Flag {
	return slices.Concat([]cli.Flag{
		f.String("state-dir", "", "", "the `folder` in which it is kept what could not be done, what an agent has heard over gRPC or with --nats-mode client, and, without Kubernetes, the key for what is secret; empty is the folder state in --nats-store-dir"),
		f.Duration("resync-tick", "", time.Second, shell.Positive, "for which `duration` it must have been quiet before differences are looked into"),
		f.Int("healthz-port", "HEALTH_CHECK_PORT", healthzPort, shell.Port, "the `port` of /livez, /readyz and /startupz; 0 is off"),
		f.Duration("unready-after", "", 30*time.Second, shell.Positive, "for which `duration` the backend must be out of reach for /readyz to say that the program is not ready; it is again once the backend is"),
		f.Int("metrics-port", "", metricsPort, shell.Port, "the `port` of /metrics; 0 is off"),
	}, traceFlags(f), pprofFlags(f), logFlags(f))
}

// A program is what the principal and an agent have in common.
type program struct {
	tick    time.Duration
	health  string        // the address of its probes
	unready time.Duration // after which a backend that is away makes it unready
	metrics string        // the address of its metrics
	pprof   string        // the address of its profiles
	paces   *session.Paces
	traces  *tracing.Tracing // nil: none are made
	log     *zap.Logger
}

func newProgram(c *cli.Context, log *zap.Logger) (p program, err error) {
	p.log, p.paces = log, &session.Paces{}
	if p.pprof, err = pprofAddress(c); err != nil {
		return p, err
	}
	p.tick, p.unready = c.Duration("resync-tick"), c.Duration("unready-after")
	for flag, address := range map[string]*string{"healthz-port": &p.health, "metrics-port": &p.metrics} {
		if port := c.Int(flag); port != 0 {
			*address = fmt.Sprint(":", port)
		}
	}
	p.traces, err = newTraces(c, log)
	return p, err
}

// A part is what a program runs.
type part interface {
	Run(context.Context) error
	Ready() error
}

// run runs a program on a backend until ctx is done, and returns its cause, or a part of it fails. Others
// that are nil are left out.
func (p program) run(ctx context.Context, main part, on backend.Remote, others ...func(context.Context) error) error {
	g, inner := errgroup.WithContext(ctx)
	g.Go(func() error { return main.Run(inner) })
	g.Go(func() error {
		return page{"healthz-port", p.health, health(because(main.Ready, on), within(p.unready, on, time.Now))}.Run(inner)
	})
	g.Go(func() error { return profiles(p.pprof)(inner) })
	if p.traces != nil {
		g.Go(func() error { return p.traces.Run(inner) })
	}
	for _, other := range others {
		if other != nil {
			g.Go(func() error { return other(inner) })
		}
	}
	return g.Wait()
}

// untilEnded is the action of a program that runs until a signal ends it, which is no failure, wherever it
// is then; log is what it tells.
func untilEnded(run func(*cli.Context, *zap.Logger) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		log, err := newLog(c, c.App.ErrWriter)
		if err != nil {
			return err
		}
		err = run(c, log)
		if c.Context.Err() != nil {
			log.Info("ended by a signal")
			return nil
		}
		return err
	}
}

// openLedger opens the file with the dead letters of a program. One that does not work is
// no reason not to start: letters are in memory until it does.
func openLedger(c *cli.Context, log *zap.Logger) (*ledger.Ledger, error) {
	l, err := ledger.Open(filepath.Join(stateDir(c), "dead-letters.db"))
	switch {
	case errors.Is(err, ledger.ErrInUse):
		return nil, fmt.Errorf("%w; give each program a --state-dir and a --nats-store-dir of its own", err)
	case err != nil:
		log.Warn("dead letters are kept in memory until their file can be used", zap.Error(err))
	}
	return l, nil
}
