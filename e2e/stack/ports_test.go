package stack

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPortsStayReserved(t *testing.T) {
	dir := t.TempDir()
	mine, others := &ports{dir: dir}, &ports{dir: dir}
	seen := map[int]bool{}
	for _, p := range []*ports{mine, others, mine, others} {
		port, err := p.take()
		require.NoError(t, err)
		require.False(t, seen[port])
		seen[port] = true
		listener, err := net.Listen("tcp", loopback(port))
		require.NoError(t, err, "it is free")
		require.NoError(t, listener.Close())
	}
	mine.release()
	others.release()
}
