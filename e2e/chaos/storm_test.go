package chaos

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
)

// A diary notes what happens, and when, in a file.
type diary struct {
	mu   sync.Mutex
	file *os.File
	last []string
}

// remembered is how much of a diary is shown when something was wrong.
const remembered = 60

func (d *diary) note(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	line := time.Now().UTC().Format("15:04:05.000 ") + what
	d.last = append(d.last, line)
	d.last = d.last[max(0, len(d.last)-remembered):]
	_, _ = fmt.Fprintln(d.file, line) // it is for people
}

// end returns the last of it.
func (d *diary) end() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return "the last of what happened, of which all is in " + d.file.Name() + ":\n" + strings.Join(d.last, "\n")
}

// A step is what happens at some time.
type step struct {
	at   time.Duration
	what string
	do   func(context.Context) error
}

// play does acts and troubles in their time, one after the other. What is late is done at once.
func (w *world) play(acts []act, troubles []trouble) {
	w.t.Helper()
	var steps []step
	for _, a := range acts {
		steps = append(steps, step{a.at, a.String(), func(ctx context.Context) error { return w.estates[a.agent].do(ctx, a) }})
	}
	for _, t := range troubles {
		steps = append(steps,
			step{t.at, t.String(), func(ctx context.Context) error { return w.trouble(ctx, t, true) }},
			step{t.until, "over: " + t.String(), func(ctx context.Context) error { return w.trouble(ctx, t, false) }})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return int(a.at - b.at) })
	start := time.Now()
	for _, s := range steps {
		time.Sleep(time.Until(start.Add(s.at)))
		w.diary.note(s.what)
		if err := s.do(w.t.Context()); err != nil {
			w.t.Log(w.diary.end())
			require.NoError(w.t, err, s.what)
		}
	}
}

// trouble begins a trouble, or ends it.
func (w *world) trouble(ctx context.Context, t trouble, begins bool) error {
	p := w.principal
	switch t.place {
	case atLine:
		l := w.estates[t.agent].line
		if begins {
			return l.befall(t.what)
		}
		return l.heal(ctx, t.what)
	case atSpokeAPI, atAgent:
		p = w.agents[t.agent]
	}
	if t.place == atHubAPI || t.place == atSpokeAPI {
		if !begins {
			t.what = ""
		}
		w.gates[p].set(t.what)
		return nil
	}
	if begins {
		return p.befall(t.what)
	}
	return p.heal(ctx)
}

// forget has all programs begin anew, without anything that they have kept.
func (w *world) forget() {
	for _, p := range w.programs() {
		require.NoError(w.t, p.befall(wiped))
	}
	for _, p := range w.programs() {
		require.NoError(w.t, p.heal(w.t.Context()))
	}
	w.diary.note("all programs have forgotten everything")
}
