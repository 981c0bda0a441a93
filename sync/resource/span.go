package resource

// Span returns how long the JSON value is with which a text begins, up to what can stand behind it:
// a comma, a colon, or the end of what it is in; false if there is no value, or it has no end. It
// finds where large parts begin and end without taking them apart, and does not say whether they
// are JSON.
func Span[T string | []byte](text T) (n int, ok bool) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case depth == 0 && (c == ',' || c == ':' || c == '}' || c == ']'):
			return i, i > 0
		case c == '}' || c == ']':
			depth--
		}
	}
	return len(text), len(text) > 0 && depth == 0 && !quoted
}
