package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// A Page says which commands of the table are run for BENCHMARKS.md.
type Page struct {
	Program []string // what runs one of them: their names and arguments are put behind it
	Name    string   // how the page calls that program
	Long    bool     // in full length
	Rows    []string // the names of those that are run; none is all
	// Progress is told what runs.
	Progress io.Writer
}

// An entry is one command of the page, and what it has said.
type entry struct {
	args   []string
	load   string // of the machine before it
	took   time.Duration
	report Report
}

// A section is a Row of the page.
type section struct {
	row     Row
	entries []entry
}

// Make runs the commands, one after the other, and returns the page, and whether each has found
// that all is well.
func (p Page) Make(ctx context.Context) (page []byte, ok bool, err error) {
	var sections []section
	ok = true
	before := load()
	for _, row := range Rows() {
		if len(p.Rows) > 0 && !slices.Contains(p.Rows, row.Name) {
			continue
		}
		s := section{row: row}
		for _, args := range p.commands(row) {
			e, err := p.run(ctx, append([]string{row.Name}, args...))
			if err != nil {
				return nil, false, err
			}
			ok = ok && e.report.OK
			s.entries = append(s.entries, e)
		}
		sections = append(sections, s)
	}
	return p.render(machine(), before, sections), ok, nil
}

func (p Page) commands(r Row) [][]string {
	if p.Long {
		return r.Long
	}
	return r.Page
}

// run runs one command.
func (p Page) run(ctx context.Context, args []string) (entry, error) {
	e := entry{args: args, load: load()}
	fmt.Fprintf(p.Progress, "%s %s\n", p.Name, strings.Join(args, " "))
	whole := append(slices.Clone(p.Program), append(slices.Clone(args), "-o", "json")...)
	cmd := exec.CommandContext(ctx, whole[0], whole[1:]...)
	var said, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &complaint
	began := time.Now()
	err := cmd.Run()
	e.took = time.Since(began)
	if said := json.Unmarshal(said.Bytes(), &e.report); said != nil {
		return e, fmt.Errorf("bench: %s: %w: %s", strings.Join(args, " "), errors.Join(err, said), bytes.TrimSpace(complaint.Bytes()))
	}
	fmt.Fprintf(p.Progress, "  %.0f s: %s\n", e.took.Seconds(), e.report.Verdict)
	return e, nil
}

// render writes the page.
func (p Page) render(machine, load string, sections []section) []byte {
	var b bytes.Buffer
	full := ""
	if !p.Long {
		full = "The settings are short ones; `task bench LONG=--long` takes the full ones, which are the commands' own. "
	}
	fmt.Fprintf(&b, `# Benchmarks

This page is written by %s (%s) and never by hand: each figure comes from the command above it.
Principal and agents are two processes over mutual TLS on the loopback interface, with stores in memory for clusters.
%sThe numbers of rows are those of the goals.

Machine: %s. The load average before the first command was %s.
`, "`task bench`", "`"+p.Name+" page`", full, machine, load)
	for _, s := range sections {
		if len(s.entries) > 0 {
			s.render(&b, p.Name)
		}
	}
	return b.Bytes()
}

func (s section) render(b *bytes.Buffer, program string) {
	fmt.Fprintf(b, "\n## %s: %s\n\n", s.row.Name, s.row.Usage)
	if s.row.Numbers != "none" {
		fmt.Fprintf(b, "Row %s. ", s.row.Numbers)
	}
	fmt.Fprintf(b, "%s\n\nWhat limits it: %s\n", strings.Join(strings.Fields(s.row.Text), " "), s.row.Limits)
	for _, e := range s.entries {
		fmt.Fprintf(b, "\n```\n%s %s\n```\n\n", program, strings.Join(e.args, " "))
		fmt.Fprintf(b, "| load average %s before it | median | worst | goal | |\n|---|---|---|---|---|\n", e.load)
		for _, m := range e.report.Measures {
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", m.Name, Figure(m.Median), Figure(m.Worst), m.Goal, m.word())
		}
		if !e.report.OK {
			fmt.Fprintf(b, "\n**It failed**: %s\n", e.report.Verdict)
		}
	}
}

// word says whether a goal is met, if there is one.
func (m Measure) word() string {
	switch {
	case m.Goal == "":
		return ""
	case m.Met:
		return "met"
	}
	return "**missed**"
}
