package project

import (
	"strings"
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
		many("?"): "is too long a glob",
	} {
		require.ErrorContains(t, CheckNamespace(pattern), what)
		require.False(t, MatchNamespace([]string{pattern}, "team"), pattern)
	}
}

// What takes minutes to read matches nothing, and so costs nobody those minutes.
func TestCostlyGlobs(t *testing.T) {
	for pattern, text := range map[string]string{
		many("?x"): many("ax"), many("?"): many("a"), many("{,a}"): "a", many("{*"): "a", many("aaaa"): many("aaaa"),
	} {
		require.False(t, Match(pattern, text), "%.10s", pattern)
	}
	require.True(t, Match("eu-??-{a,b,c}-*", "eu-01-b-x"))
}

func many(text string) string { return strings.Repeat(text, 700) }
