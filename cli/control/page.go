package control

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// pageWidth is how wide a table is at most, unless it is to be shown whole.
const pageWidth = 120

// gap is what is between two columns.
const gap = "  "

// fit cuts the first column so that no line is wider than width, but for names of a few letters.
func fit(cells [][]string, width int) {
	const few = 12
	rest := 0
	for i, w := range widths(cells) {
		if i > 0 {
			rest += w + len(gap)
		}
	}
	for _, row := range cells {
		row[0] = cut(row[0], max(width-rest, few))
	}
}

// cut returns a text of at most n letters.
func cut(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

func widths(cells [][]string) []int {
	w := make([]int, len(cells[0]))
	for _, row := range cells {
		for i, cell := range row {
			w[i] = max(w[i], utf8.RuneCountInString(cell))
		}
	}
	return w
}

// lay writes cells in columns.
func lay(w io.Writer, cells [][]string) error {
	wide := widths(cells)
	var page bytes.Buffer
	for _, row := range cells {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell + strings.Repeat(" ", wide[i]-utf8.RuneCountInString(cell)) + gap)
		}
		page.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := w.Write(page.Bytes())
	return err
}

// A screen is where a program writes. The zero screen is no terminal.
type screen struct{ rows, columns int }

func screenOf(w io.Writer) screen {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return screen{}
	}
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || rows < 4 || columns < 10 {
		return screen{23, 80} // it does not say, and is likely to be as they all were once
	}
	return screen{rows - 1, columns}
}

// A watcher shows something again and again.
type watcher struct {
	interval time.Duration
	screen   func() screen // what it is shown on by now: in place, if that is a terminal
}

// What has a terminal write from its upper left corner, drop the rest of a line, all that is
// below, or all there is.
const (
	home    = "\x1b[H"
	endLine = "\x1b[K"
	endPage = "\x1b[J"
	newPage = "\x1b[2J"
)

// run shows it until ctx is done, which is no failure. If it cannot be shown at first it fails;
// later on it says so, and tries again.
func (s watcher) run(ctx context.Context, w io.Writer, show func(context.Context, io.Writer) error) error {
	for first := true; ; first = false {
		var page bytes.Buffer
		on := s.screen()
		err := show(ctx, &page)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil:
			page.Reset()
			fmt.Fprintln(&page, err)
		}
		if err := on.put(w, page.String(), first); err != nil {
			return err
		}
		select {
		case <-time.After(s.interval):
		case <-ctx.Done():
			return nil
		}
	}
}

// put writes one page, in place of the last one if there is a place. There no line goes on on the
// next one, or the page would be longer than the screen.
func (s screen) put(w io.Writer, page string, first bool) error {
	var out strings.Builder
	switch {
	case s == (screen{}) && first:
		out.WriteString(page)
	case s == (screen{}):
		out.WriteString("\n" + page)
	default:
		if first {
			out.WriteString(newPage)
		}
		out.WriteString(home)
		for line := range strings.Lines(page) {
			out.WriteString(cut(strings.TrimSuffix(line, "\n"), s.columns) + endLine + "\n")
		}
		out.WriteString(endPage)
	}
	_, err := io.WriteString(w, out.String())
	return err
}
