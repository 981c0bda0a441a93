package admin

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
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

// Whoever answers without end is given up, too, at a cost that is known.
func TestAnAnswerWithoutEnd(t *testing.T) {
	for code, most := range map[int]uint64{http.StatusOK: 20 << 20, http.StatusInternalServerError: 64 * maxFailure} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(code)
				more := bytes.Repeat([]byte(" "), 32<<10)
				for _, err := w.Write([]byte(`{"agents": [`)); err == nil; {
					_, err = w.Write(more)
				}
			}))
			defer s.Close()
			c, err := NewClient(s.URL)
			require.NoError(t, err)
			c.most = 4 << 20
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = c.Agents(t.Context())
			runtime.ReadMemStats(&after)
			require.ErrorContains(t, err, "the answer is larger than any of a principal")
			cost := after.TotalAlloc - before.TotalAlloc
			require.Less(t, cost, most)
		})
	}
}
