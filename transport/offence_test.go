package transport

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnOffenceIsTroubleUntilTheAgentHasBehavedForAWhile(t *testing.T) {
	var o Offences
	start, first, second := time.Unix(0, 0), errors.New("first"), errors.New("second")
	require.True(t, o.Note("b", first, start))
	require.False(t, o.Note("b", second, start.Add(time.Minute)), "the log is told once")
	require.True(t, o.Note("a", first, start.Add(time.Minute)))
	require.Equal(t, []Trouble{
		{Agent: "a", What: RulesBroken, Err: first, Since: start.Add(time.Minute)},
		{Agent: "b", What: RulesBroken, Err: second, Since: start},
	}, o.Troubles(start.Add(offenceKept)))
	o.Forget("a")
	require.Empty(t, o.Troubles(start.Add(time.Minute+offenceKept+1)))
	require.True(t, o.Note("b", first, start.Add(time.Hour)))
}
