package grpclink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/argocd-fabric/argocd-agent/transport/grpclink/linkpb"
	"github.com/argocd-fabric/argocd-agent/transport/packetlink"
)

// A caller connects an agent's End to the principal, again and again.
type caller struct {
	common
	config DialerConfig
	end    *packetlink.End
	teller teller
}

// run calls until ctx is done.
func (c *caller) run(ctx context.Context) {
	p := &pauses{least: c.beat / 16, most: c.beat / 2, random: rand.N[time.Duration]}
	for ctx.Err() == nil {
		began := time.Now()
		err := c.call(ctx)
		if ctx.Err() != nil {
			return
		}
		pause := p.next(err, time.Since(began))
		if !errors.Is(err, errRenewed) {
			c.tell(err)
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
		}
		wait.Stop()
	}
}

// errRenewed ends a session that is to be had anew.
var errRenewed = errors.New("the credentials are replaced")

// tell tells the log why there is no session, once for each reason in a while.
func (c *caller) tell(err error) {
	s := status.Convert(err)
	if !c.teller.news(s.Code().String()+s.Message(), time.Now()) {
		return
	}
	log := c.config.Logger.With(zap.String("agent", c.config.Agent), zap.String("principal", c.config.Connect))
	switch s.Code() {
	case codes.Unauthenticated, codes.PermissionDenied, codes.Aborted, codes.InvalidArgument, codes.FailedPrecondition:
		log.Error("the principal refuses this agent: " + s.Message())
	case codes.ResourceExhausted:
		log.Info("the principal asks to come again later: " + s.Message())
	default:
		log.Warn("there is no connection to the principal: " + s.Message())
	}
}

// call connects, and has one session. It returns why that has ended.
func (c *caller) call(ctx context.Context) error {
	renewed := c.config.Credentials.Changed()
	conn, err := grpc.NewClient("passthrough:///"+c.config.Connect, c.config.dialOptions()...)
	if err != nil {
		return fmt.Errorf("grpclink: connect to %s: %w", c.config.Connect, err)
	}
	s := newSession(ctx, "", max(patience, beats*c.beat), &c.common)
	client := linkpb.NewLinkClient(conn)
	end := func(err error) error {
		s.end(err)
		s.silence.Stop()
		_ = conn.Close() // fails only if it is closed
		c.over.Wait()
		return context.Cause(s.ctx)
	}
	table, err := client.Table(speaking(s.ctx, c.config.Says))
	if err != nil {
		return end(err)
	}
	if err := greet(table, helloOf(c.config.Presence, "")); err != nil {
		_, err = table.Recv() // says why
		return end(err)
	}
	hello, err := s.meet(table)
	if err != nil {
		return end(err)
	}
	streams, err := client.Streams(s.ctx)
	if err == nil {
		err = greet(streams, &linkpb.Hello{Session: hello.GetSession()})
	}
	if err != nil {
		return end(err)
	}
	c.config.Logger.Info("connected to the principal", zap.String("principal", c.config.Connect), zap.String("version", hello.GetVersion()))
	s.conn, s.wake = c.end.Begin(presenceOf(hello)), c.end.Wake
	s.carry(table, s.conn.Table, c.end.TableReady(), true)
	s.carry(&met{pipe: streams, session: s}, s.conn.Streams, c.end.StreamsReady(), false)
	select {
	case <-renewed:
		s.end(errRenewed)
	case <-s.ctx.Done():
	}
	c.end.End(s.conn, context.Cause(s.ctx).Error())
	return end(nil)
}

// A met is a pipe whose first Packet is the principal's hello, which says nothing.
type met struct {
	pipe
	session *session
	was     bool
}

// Recv implements pipe.
func (m *met) Recv() (*linkpb.Packet, error) {
	if !m.was {
		m.was = true
		if _, err := m.session.meet(m.pipe); err != nil {
			return nil, err
		}
	}
	return m.pipe.Recv()
}

// dialOptions returns those of one connection: a session's, which is connected once.
func (c DialerConfig) dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(over(c.Credentials.Client(c.host))),
		grpc.WithPerRPCCredentials(saying{c.Credentials}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxPacket), grpc.MaxCallSendMsgSize(maxPacket)),
		grpc.WithContextDialer(c.route.Dial),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: patience}),
		grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(2 * window),
		grpc.WithReadBufferSize(readBuffer), grpc.WithWriteBufferSize(writeBuffer),
		grpc.WithIdleTimeout(0), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
	}
}
