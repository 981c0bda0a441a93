package transport

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAComplaintLastsUntilThereHasBeenNoCauseForAWhile(t *testing.T) {
	var c Complaints
	start, first, second := time.Unix(0, 0), errors.New("first"), errors.New("second")
	later := start.Add(time.Minute)
	require.True(t, c.Note("b", RulesBroken, first, start))
	require.False(t, c.Note("b", RulesBroken, second, later), "the log is told once")
	require.True(t, c.Note("b", "copy quota", first, start))
	require.True(t, c.Note("a", RulesBroken, first, later))
	require.Equal(t, []Trouble{
		{Agent: "a", What: RulesBroken, Err: first, Since: later},
		{Agent: "b", What: "copy quota", Err: first, Since: start},
		{Agent: "b", What: RulesBroken, Err: second, Since: start},
	}, c.Troubles(start.Add(complaintKept)))
	c.End("b", "copy quota")
	require.Len(t, c.Troubles(later), 2)
	c.Forget("a")
	require.Len(t, c.Troubles(later), 1)
	require.Empty(t, c.Troubles(later.Add(complaintKept+1)))
	require.True(t, c.Note("b", RulesBroken, first, start.Add(time.Hour)))
}
