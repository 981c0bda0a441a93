package project

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A pattern that cannot be read is refused where it is given: it would match nothing.
func TestCheckNamespace(t *testing.T) {
	for pattern, match := range map[string]string{"team-*": "team-a", "/^team-(a|b)$/": "team-b", "team-[ab]": "team-a", "/": "/", "{a,b}": "b"} {
		require.NoError(t, CheckNamespace(pattern))
		require.True(t, MatchNamespace([]string{pattern}, match), pattern)
	}
	for pattern, what := range map[string]string{
		"/te[am/": `"/te[am/" is no regular expression: `,
		"/(/":     `"/(/" is no regular expression: `,
		"team-[":  `"team-[" is no glob: `,
	} {
		require.ErrorContains(t, CheckNamespace(pattern), what)
		require.False(t, MatchNamespace([]string{pattern}, "team"), pattern)
	}
}
