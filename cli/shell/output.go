package shell

import (
	"encoding/json"
	"fmt"
	"io"
)

// Count says how many things there are, such as 1 object or 2 objects.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// JSON writes v for programs to read, and for people too.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
