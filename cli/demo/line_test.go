package demo

import (
	"bufio"
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLineIsCutAndHealed(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	echoed := make(chan struct{})
	go func() {
		defer close(echoed)
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			io.Copy(c, c)
			c.Close()
		}
	}()
	l, err := newLine(server.Addr().String())
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()

	speak := func(c net.Conn) (string, error) {
		if _, err := io.WriteString(c, "hello\n"); err != nil {
			return "", err
		}
		return bufio.NewReader(c).ReadString('\n')
	}
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.address())
		require.NoError(t, err)
		return c
	}
	first := dial()
	answer, err := speak(first)
	require.NoError(t, err)
	require.Equal(t, "hello\n", answer)

	l.cut()
	_, err = speak(first)
	require.Error(t, err)
	second := dial()
	_, err = speak(second)
	require.Error(t, err, "new connections do not pass")

	l.heal()
	third := dial()
	answer, err = speak(third)
	require.NoError(t, err)
	require.Equal(t, "hello\n", answer)

	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
	for _, c := range []net.Conn{first, second, third} {
		require.NoError(t, c.Close())
	}
	require.NoError(t, server.Close())
	<-echoed
}
