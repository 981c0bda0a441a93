package natslink

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An answer after which nobody asks is said again a few times, and not for ever; nothing was said, nothing
// is said again.
func TestAnswersAreSaidAgain(t *testing.T) {
	var none spoken
	a, _ := none.again()
	require.Nil(t, a)
	said := spoken{to: &asked{}}
	var pauses []time.Duration
	for a, pause := said.again(); a != nil; a, pause = said.again() {
		require.Same(t, said.to, a)
		pauses = append(pauses, pause)
	}
	require.Equal(t, []time.Duration{4 * time.Second, 8 * time.Second, 16 * time.Second}, pauses)
}
