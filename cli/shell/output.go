package shell

import (
	"encoding/json"
	"io"
)

// JSON writes v for programs to read, and for people too.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
