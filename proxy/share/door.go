package share

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"go.uber.org/zap"
)

// The services of a principal's process.
const (
	RepoServer = "repo-server"
	Redis      = "shared-redis"
)

// A Door is where Argo CD on a spoke finds a server of the hub.
type Door struct{ cfg DoorConfig }

// DoorConfig is what a Door is made of. All fields are needed.
type DoorConfig struct {
	Listener net.Listener // it is closed when Run returns
	Service  string       // of the principal's process
	// Open opens a stream for a service of the principal's process, and fails at once if that is
	// not there.
	Open func(ctx context.Context, service string) (net.Conn, error)
	Log  *zap.Logger
}

// NewDoor returns a Door, which does nothing until Run is called.
func NewDoor(c DoorConfig) (*Door, error) {
	if c.Listener == nil || c.Service == "" || c.Open == nil || c.Log == nil {
		return nil, errors.New("share: listener, service, opener and log are needed")
	}
	return &Door{c}, nil
}

// Run serves connections until ctx is done, and returns its cause, or until none can be
// accepted. While the principal is away connections are closed as they come. It is called once.
func (d *Door) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer stop()
	end := context.AfterFunc(ctx, func() { _ = d.cfg.Listener.Close() })
	defer end()
	defer d.cfg.Listener.Close() // nobody is to wait there
	for {
		c, err := d.cfg.Listener.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = c.Close() // nothing was said on it
			}
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("share: serve %s: %w", d.cfg.Service, err)
		}
		serving.Go(func() { d.serve(ctx, c) })
	}
}

func (d *Door) serve(ctx context.Context, near net.Conn) {
	far, err := d.cfg.Open(ctx, d.cfg.Service)
	if err != nil {
		d.cfg.Log.Info("the hub's server is not reached", zap.String("service", d.cfg.Service), zap.Error(err))
		_ = near.Close() // who asks comes again
		return
	}
	join(ctx, near, far)
}
