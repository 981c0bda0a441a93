package verify

import "unicode/utf8"

// What is shown of a text: so much before the first difference, and so much in all.
const (
	before = 20
	shown  = 120
)

// around shortens two texts that differ to where they do.
func around(a, b string) (string, string) {
	first := 0
	for first < len(a) && first < len(b) && a[first] == b[first] {
		first++
	}
	return window(a, first), window(b, first)
}

// window returns the text around position at, with dots for what is left out. It cuts
// between runes.
func window(text string, at int) string {
	if len(text) <= shown {
		return text
	}
	from := boundary(text, at-before)
	to := boundary(text, from+shown)
	out := text[from:to]
	if from > 0 {
		out = "…" + out
	}
	if to < len(text) {
		out += "…"
	}
	return out
}

// boundary returns the start of the rune at position i, within text.
func boundary(text string, i int) int {
	i = min(max(i, 0), len(text))
	for i > 0 && i < len(text) && !utf8.RuneStart(text[i]) {
		i--
	}
	return i
}
