package check

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWalkEndsAtTheFirstFailure(t *testing.T) {
	bad, tried := errors.New("refused"), 0
	says := func(seen string, err error) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { tried++; return seen, err }
	}
	reports, err := Walk(t.Context(), []Stage{
		{"dns", says("it is 192.0.2.7", nil)},
		{"proxy", says("", Skipped("there is none"))},
		{"tcp", says("", &Failure{bad, "open the port"})},
		{"tls", says("never", nil)},
	}, time.Minute)
	require.ErrorIs(t, err, bad)
	require.EqualError(t, err, "tcp: refused; open the port")
	require.Equal(t, 3, tried)
	require.Equal(t, []Report{
		{"dns", OK, "it is 192.0.2.7", ""},
		{"proxy", NotTried, "there is none", ""},
		{"tcp", Failed, "refused", "open the port"},
		{"tls", NotTried, pending, ""},
	}, reports)
	var out strings.Builder
	reports[0].Seen = "a\x1b[2J\nb"
	require.NoError(t, Table(&out, reports[:1]))
	require.Equal(t, "STAGE   OUTCOME   SEEN\ndns     ok        a�[2J b\n", out.String())
}

func TestAStageIsWaitedForNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		reports, err := Walk(t.Context(), []Stage{{"tcp", func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		}}}, time.Minute)
		require.EqualError(t, err, "tcp: nothing has come of it in 1m0s")
		require.Equal(t, []Report{{"tcp", Failed, "nothing has come of it in 1m0s", ""}}, reports)
		require.Equal(t, time.Minute, time.Since(began))
	})
}
