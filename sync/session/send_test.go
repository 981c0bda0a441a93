package session

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestIDsAreNumbered, so that no two of one Session are equal and little of them is another.
func TestIDsAreNumbered(t *testing.T) {
	next, other := numbered("a"), numbered("b")
	seen := map[string]bool{}
	for range 100 {
		seen[next()] = true
		seen[other()] = true
	}
	require.Len(t, seen, 200)
	require.Contains(t, seen, "a-1")
}
