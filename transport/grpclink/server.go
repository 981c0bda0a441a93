package grpclink

import (
	"net"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

// Bounds of what one connection may take. An agent has two calls; the buffers are small
// because an agent is idle most of the time: what is read is in a buffer of TLS already, and the
// one for what is written gRPC keeps only as long as it writes.
const (
	maxCalls    = 8
	maxHeaders  = 8 << 10
	readBuffer  = 2 << 10
	writeBuffer = 8 << 10
)

// window is how many bytes of a call may be under way. It is given, so that neither side
// measures what the line can do, which costs an idle one more than the signs of life.
const window = 1 << 20

// serverOptions returns those of the principal's server. A dead connection is noticed by the
// heartbeats, and closed by the keepalive, which asks only where nothing is heard.
func (c HubConfig) serverOptions(d *desk) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(&certified{TransportCredentials: over(c.Credentials.Server()), desk: d}),
		grpc.MaxRecvMsgSize(maxPacket), grpc.MaxSendMsgSize(maxPacket),
		grpc.MaxConcurrentStreams(maxCalls), grpc.MaxHeaderListSize(maxHeaders),
		grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(2 * window),
		grpc.ReadBufferSize(readBuffer), grpc.WriteBufferSize(writeBuffer),
		grpc.ConnectionTimeout(patience),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: max(patience, beats*c.Heartbeat),
			Time:              max(beats*c.Heartbeat, time.Second), Timeout: max(c.Heartbeat, time.Second),
		}),
		grpc.WaitForHandlers(true),
	}
}

// certified are credentials that tell the log of those who cannot prove who they are.
type certified struct {
	credentials.TransportCredentials
	desk *desk
}

// ServerHandshake implements credentials.TransportCredentials. What it tells of a connection is
// its acquaintance.
func (c *certified) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := c.TransportCredentials.ServerHandshake(conn)
	if err != nil && proofless(err) && c.desk.teller.news("handshake "+err.Error(), time.Now()) {
		c.desk.log.Warn("refused a connection", zap.Stringer("from", conn.RemoteAddr()), zap.Error(err))
	}
	if err != nil {
		return nil, nil, err
	}
	return c.desk.receives(secured, info), &acquaintance{AuthInfo: info}, nil
}

// Clone implements credentials.TransportCredentials.
func (c *certified) Clone() credentials.TransportCredentials {
	return &certified{c.TransportCredentials.Clone(), c.desk}
}

// proofless reports whether a handshake has failed for what was shown, and not because the
// connection has ended.
func proofless(err error) bool {
	return strings.Contains(err.Error(), "tls: ") || strings.Contains(err.Error(), "x509: ")
}
