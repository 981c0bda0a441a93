package tunnel

import (
	"context"
	"io"
	"net"
	"sync"

	"github.com/coder/websocket"
)

// A carried is the connection in a websocket.
type carried struct {
	net.Conn
	socket *websocket.Conn
	path   string // of the URL
}

// PathOf returns the path of the URL by which a connection has come that a Door has accepted; ""
// if that was not by a websocket.
func PathOf(conn net.Conn) string {
	if c, ok := conn.(*carried); ok {
		return c.path
	}
	return ""
}

// carry returns the connection in a websocket, which has come by a path. Messages of any length are read as they come,
// and nothing of them is kept.
func carry(ws *websocket.Conn, path string) net.Conn {
	return &carried{websocket.NetConn(context.Background(), ws, websocket.MessageBinary), ws, path}
}

// Close implements net.Conn. It takes no leave, which might take seconds: the connection that
// is carried says itself when it ends.
func (c *carried) Close() error { return c.socket.CloseNow() }

// piece is how many bytes Join moves at once.
const piece = 16 << 10

// Join moves what either of two connections says to the other, until one of them ends; then
// both are closed.
func Join(a, b net.Conn) {
	var both sync.WaitGroup
	for to, from := range map[net.Conn]net.Conn{a: b, b: a} {
		both.Go(func() {
			// How it ends is told by neither; the plain interfaces have the buffer used.
			_, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, piece))
			_ = to.Close()
			_ = from.Close()
		})
	}
	both.Wait()
}
