package control

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/principal/admin"
)

// behindAfter is how old a change is that has not arrived before its agent is called behind, and
// soon within what time a certificate must not expire.
const (
	behindAfter = 10 * time.Second
	soon        = 7 * day
)

// lagOf returns how old the oldest change is that has not arrived, either way, in seconds.
func lagOf(a admin.Agent) float64 { return max(a.Down.Lag, a.Up.Lag) }

func behind(a admin.Agent) bool { return lagOf(a) > behindAfter.Seconds() }

func away(a admin.Agent) bool { return !a.Connected }

// failing reports whether somebody is to see to an agent for another reason than its being away.
func failing(a admin.Agent) bool {
	bad := a.Hub.Retrying + a.Hub.DeadLetters + len(a.Held)
	if a.Spoke != nil {
		bad += a.Spoke.Retrying + a.Spoke.DeadLetters
	}
	return bad > 0 || errorOf(a) != "" || a.State == "failing"
}

// choices are what --only knows.
var choices = map[string]func(admin.Agent) bool{"behind": behind, "away": away, "failing": failing}

func choiceNames() []string { return slices.Sorted(maps.Keys(choices)) }

// orders are what --sort knows: the worst comes first.
var orders = map[string]func(a, b admin.Agent) int{
	"name": func(a, b admin.Agent) int { return strings.Compare(a.Name, b.Name) },
	"lag":  func(a, b admin.Agent) int { return cmp.Compare(lagOf(b), lagOf(a)) },
	"backlog": func(a, b admin.Agent) int {
		return cmp.Compare(b.Down.Backlog+b.Up.Backlog, a.Down.Backlog+a.Up.Backlog)
	},
	"link": func(a, b admin.Agent) int {
		return cmp.Or(cmp.Compare(number(a.Connected), number(b.Connected)), a.Since.Compare(b.Since))
	},
	"failing": func(a, b admin.Agent) int { return cmp.Compare(number(failing(b)), number(failing(a))) },
	"version": func(a, b admin.Agent) int { return strings.Compare(a.Version, b.Version) },
	"expiry": func(a, b admin.Agent) int {
		return cmp.Or(cmp.Compare(number(a.Expires.IsZero()), number(b.Expires.IsZero())), a.Expires.Compare(b.Expires))
	},
}

func orderNames() []string { return slices.Sorted(maps.Keys(orders)) }

func number(so bool) int {
	if so {
		return 1
	}
	return 0
}

// A column is one of the table of agents.
type column struct {
	head string
	wide bool // only of -o wide
	of   func(now time.Time, a admin.Agent) string
}

var columns = []column{
	{"AGENT", false, func(_ time.Time, a admin.Agent) string { return a.Name }},
	{"MODE", false, func(_ time.Time, a admin.Agent) string { return a.Mode }},
	{"STATE", false, func(_ time.Time, a admin.Agent) string { return a.State }},
	{"LINK", false, linkOf},
	{"IN STEP", true, func(_ time.Time, a admin.Agent) string {
		if a.Spoke == nil || a.Spoke.Error != "" {
			return "?"
		}
		return yes(a.Hub.InStep && a.Spoke.InStep)
	}},
	{"ROWS", true, func(_ time.Time, a admin.Agent) string { return fmt.Sprint(a.Hub.Rows) }},
	{"COPIED", true, func(_ time.Time, a admin.Agent) string { return fmt.Sprint(a.Hub.Copied) }},
	{"LAG", false, func(_ time.Time, a admin.Agent) string {
		return both(a, func(f admin.Flow) string { return length(f.Lag) })
	}},
	{"BACKLOG", false, func(_ time.Time, a admin.Agent) string {
		return both(a, func(f admin.Flow) string { return fmt.Sprint(f.Backlog) })
	}},
	{"RETRY", false, func(_ time.Time, a admin.Agent) string { return sides(a, func(s admin.Side) int { return s.Retrying }) }},
	{"HELD", false, func(_ time.Time, a admin.Agent) string { return fmt.Sprint(len(a.Held)) }},
	{"WAIT", false, func(_ time.Time, a admin.Agent) string { return fmt.Sprint(a.Hub.Waiting) }},
	{"DEAD", false, func(_ time.Time, a admin.Agent) string {
		return sides(a, func(s admin.Side) int { return s.DeadLetters })
	}},
	{"VERSION", false, func(_ time.Time, a admin.Agent) string { return a.Version }},
	{"PROTO", false, func(_ time.Time, a admin.Agent) string { return spoken(a.Protocol) }},
	{"CERT", false, func(now time.Time, a admin.Agent) string { return left(now, a.Expires) }},
	{"PROCESS", true, func(_ time.Time, a admin.Agent) string { return a.Process }},
	{"ERROR", true, func(_ time.Time, a admin.Agent) string { return errorOf(a) }},
}

// linkOf says whether an agent's process answers, and since when.
func linkOf(now time.Time, a admin.Agent) string {
	switch {
	case a.Connected:
		return "up " + ago(now, a.Since)
	case a.Since.IsZero():
		return "never"
	}
	return "away " + ago(now, a.Since)
}

// both says something of what goes down and of what goes up. What is not known is another thing
// than none.
func both(a admin.Agent, of func(admin.Flow) string) string {
	say := func(f admin.Flow) string {
		switch {
		case !f.Known:
			return "?"
		case !f.Whole:
			return of(f) + "+"
		}
		return of(f)
	}
	return say(a.Down) + "/" + say(a.Up)
}

// sides adds up what both sides have; what the spoke does not say is not known.
func sides(a admin.Agent, of func(admin.Side) int) string {
	if a.Spoke == nil || a.Spoke.Error != "" {
		return fmt.Sprint(of(a.Hub), "+?")
	}
	return fmt.Sprint(of(a.Hub) + of(*a.Spoke))
}

// length says how long something lasts.
func length(seconds float64) string {
	return ago(time.Unix(0, 0).Add(time.Duration(seconds*float64(time.Second))), time.Unix(0, 0))
}

// left says for how long something is still good.
func left(now, end time.Time) string {
	switch {
	case end.IsZero():
		return "-"
	case !end.After(now):
		return "expired"
	}
	return ago(end, now)
}

func spoken(p *admin.Protocol) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf("%d-%d", p.Oldest, p.Newest)
}

// fleet writes a table of agents, and what there is to say below it. most is how many lines there
// are room for; 0 is any number.
func fleet(w io.Writer, c choice, wide bool, most int) error {
	now := time.Now()
	notes := notesOf(now, c)
	shown, hidden := c.shown, 0
	if room := most - len(notes) - 2; most > 0 && len(shown) > max(room, 1) {
		hidden = len(shown) - max(room, 1)
		shown = shown[:max(room, 1)]
	}
	cells := make([][]string, 0, len(shown)+1)
	for _, a := range append([]admin.Agent{{}}, shown...) {
		var row []string
		for _, col := range columns {
			switch {
			case col.wide && !wide:
			case len(cells) == 0:
				row = append(row, col.head)
			case col.head == "VERSION" && !wide:
				first, _, _ := strings.Cut(col.of(now, a), " ")
				row = append(row, cut(shell.Line(first), 10))
			default:
				row = append(row, shell.Line(col.of(now, a)))
			}
		}
		cells = append(cells, row)
	}
	if !wide {
		fit(cells, pageWidth)
	}
	if err := lay(w, cells); err != nil {
		return err
	}
	if hidden > 0 {
		notes = append([]string{fmt.Sprintf("... and %d more", hidden)}, notes...)
	}
	for _, line := range notes {
		if _, err := fmt.Fprintln(w, shell.Line(line)); err != nil {
			return err
		}
	}
	return nil
}

// mostNotes is how many agents are spoken of below the table for one reason.
const mostNotes = 5

// notesOf returns what is said below a table: what fails, what somebody must decide, and the sum.
func notesOf(now time.Time, c choice) (notes []string) {
	for _, of := range []func(admin.Agent) string{
		func(a admin.Agent) string {
			if e := errorOf(a); e != "" {
				return a.Name + ": " + e
			}
			return ""
		},
		func(a admin.Agent) string { return stuck(now, a) },
	} {
		said := 0
		for _, a := range c.shown {
			if line := of(a); line != "" {
				if said++; said <= mostNotes {
					notes = append(notes, line)
				}
			}
		}
		if said > mostNotes {
			notes = append(notes, fmt.Sprintf("... and %d more of these", said-mostNotes))
		}
	}
	return append(notes, summary(now, c)...)
}

// summary says in two lines how a fleet stands, whatever is shown of it.
func summary(now time.Time, c choice) []string {
	count := map[string]int{}
	var oldest float64
	for _, a := range c.all.Agents {
		for name, is := range choices {
			count[name] += number(is(a))
		}
		count["soon"] += number(!a.Expires.IsZero() && a.Expires.Before(now.Add(soon)))
		oldest = max(oldest, lagOf(a))
	}
	n := len(c.all.Agents)
	line := fmt.Sprintf("%s: %d up, %d away, %d behind (%s), %d failing, %s to expire within 7d", shell.Count(n, "agent"), n-count["away"], count["away"], count["behind"], length(oldest), count["failing"], shell.Count(count["soon"], "certificate"))
	if len(c.shown) != n {
		line += fmt.Sprintf("; %d shown", len(c.shown))
	}
	p := c.all.Principal
	version, _, _ := strings.Cut(p.Version, " ")
	us := fmt.Sprintf("principal %s: version %s, protocol %s, certificate %s", p.Identity, cmp.Or(version, "-"), spoken(p.Protocol), left(now, p.Expires))
	for _, t := range p.Troubles {
		us += "; " + t
	}
	return []string{line, us}
}

// stuck says how to go on with deletions that wait for an agent which is away.
func stuck(now time.Time, a admin.Agent) string {
	if a.Connected || a.Hub.Waiting == 0 {
		return ""
	}
	away := "which was not there since the principal started"
	if !a.Since.IsZero() {
		away = "which is away since " + a.Since.UTC().Format(time.RFC3339) + " (" + ago(now, a.Since) + ")"
	}
	return fmt.Sprintf("waiting for %s, %s: %s; if it is gone for good: argocd-agentctl agent release-deletions %[1]s --reason ...", a.Name, away, shell.Count(a.Hub.Waiting, "deletion"))
}

// errorOf returns what fails on either side.
func errorOf(a admin.Agent) string {
	switch {
	case a.Error != "":
		return a.Error
	case a.Spoke != nil && a.Spoke.Error != "":
		return "spoke: " + a.Spoke.Error
	}
	return ""
}
