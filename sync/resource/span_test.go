package resource

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpan(t *testing.T) {
	for text, want := range map[string]string{
		`"a":1`:            `"a"`,
		`"a\",:}":1`:       `"a\",:}"`,
		`{"a":[1,{}]},"b"`: `{"a":[1,{}]}`,
		`"}]"]`:            `"}]"`,
		`1}`:               `1`,
		`null`:             `null`,
	} {
		n, ok := Span(text)
		require.True(t, ok, text)
		require.Equal(t, want, text[:n])
		inBytes, ok := Span([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, n, inBytes)
	}
	for _, text := range []string{"", ",", "}", `"a`, `{"a":1`, `"a\`, `[`} {
		_, ok := Span(text)
		require.False(t, ok, text)
	}
}
