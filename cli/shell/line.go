package shell

import (
	"strings"
	"unicode"
)

// Line returns a text that a terminal shows as it is, in one line: peers say some of it.
func Line(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return unicode.ReplacementChar
	}, text)
}
