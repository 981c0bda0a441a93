package backend

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReachRemembersTheFirstFailureInARow(t *testing.T) {
	refused, late := errors.New("refused"), errors.New("late")
	var r Reach
	start := time.Unix(1000, 0)
	for i, step := range []struct {
		err   error
		since int // in seconds after the start; -1 is never
		why   error
	}{
		{nil, -1, nil},
		{refused, 1, refused},
		{late, 1, late},
		{nil, -1, nil},
		{late, 4, late},
	} {
		r.Note(start.Add(time.Duration(i)*time.Second), step.err)
		since, why := r.Away()
		require.Equal(t, step.why, why)
		if step.since < 0 {
			require.Zero(t, since)
		} else {
			require.Equal(t, start.Add(time.Duration(step.since)*time.Second), since)
		}
	}
}

func TestRemotesAreAwayWhileOneIs(t *testing.T) {
	var there, late, early Reach
	all := Remotes{&there, &late, &early}
	since, why := all.Away()
	require.Zero(t, since)
	require.NoError(t, why)
	late.Note(time.Unix(20, 0), errors.New("late"))
	early.Note(time.Unix(10, 0), errors.New("early"))
	since, why = all.Away()
	require.Equal(t, time.Unix(10, 0), since)
	require.EqualError(t, why, "early")
	early.Note(time.Unix(30, 0), nil)
	since, why = all.Away()
	require.Equal(t, time.Unix(20, 0), since)
	require.EqualError(t, why, "late")
}
