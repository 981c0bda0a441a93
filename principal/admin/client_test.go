package admin

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whoever takes a request and says nothing is given up.
func TestAPrincipalThatNeverAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c, err := NewClient("http://" + l.Addr().String())
	require.NoError(t, err)
	c.limit = 50 * time.Millisecond
	_, err = c.Agents(t.Context())
	require.ErrorIs(t, err, ErrSilent)
	require.ErrorContains(t, err, "nothing answers there in time")
}
