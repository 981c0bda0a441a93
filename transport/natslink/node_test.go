package natslink

import (
	"bufio"
	"net"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// A lateServer sends its ping before it answers the client's.
type lateServer struct{ done chan error }

func (s lateServer) InProcessConn() (net.Conn, error) {
	client, server := net.Pipe()
	go func() {
		_, err := server.Write([]byte(`INFO {"server_id":"late","proto":1,"max_payload":1024}` + "\r\n"))
		for in := bufio.NewReader(server); err == nil; {
			var line string
			if line, err = in.ReadString('\n'); line == "PING\r\n" {
				_, err = server.Write([]byte("PING\r\nPONG\r\n"))
			}
		}
		s.done <- server.Close()
	}()
	return client, nil
}

func TestLatePongIsTold(t *testing.T) {
	s := lateServer{make(chan error, 1)}
	_, err := nats.Connect("", nats.InProcessServer(s))
	require.Error(t, err)
	require.True(t, isLate(err))
	require.NoError(t, <-s.done)
	require.False(t, isLate(nats.ErrAuthorization))
}
