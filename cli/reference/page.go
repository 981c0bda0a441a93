package reference

import "strings"

// A Block is what stands between two fences of a page.
type Block struct {
	Language string
	// Mark is the comment on the line before it, or on the first line of the page, without
	// its brackets: who runs a block of commands.
	Mark string
	Text string
	Line int // of the page, on which its fence is
}

// A Page is a page in Markdown, taken apart.
type Page struct {
	Blocks []Block
	Prose  []string // the other lines; those of blocks are empty
}

// Read takes a page apart.
func Read(text string) (p Page) {
	var open *Block
	whole, before := "", ""
	for i, line := range strings.Split(text, "\n") {
		fence, is := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case is && open == nil:
			open = &Block{Language: fence, Mark: before, Line: i + 1}
			if open.Mark == "" {
				open.Mark = whole
			}
		case is:
			p.Blocks = append(p.Blocks, *open)
			open = nil
		case open != nil:
			open.Text += line + "\n"
		default:
			p.Prose = append(p.Prose, line)
			before = comment(line)
			if i == 0 {
				whole = before
			}
			continue
		}
		p.Prose = append(p.Prose, "")
		before = ""
	}
	return p
}

// comment returns what a comment says that is all of a line.
func comment(line string) string {
	text, begins := strings.CutPrefix(line, "<!-- ")
	text, ends := strings.CutSuffix(text, " -->")
	if !begins || !ends {
		return ""
	}
	return text
}

// Lines returns the commands of a block, each in one line, without comments.
func Lines(text string) (all []string) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, " #")
		line = strings.TrimSuffix(strings.TrimSpace(line), " &")
		if line = strings.Join(strings.Fields(line), " "); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all
}
