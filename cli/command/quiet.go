package command

import (
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// How often the same is logged, and how many different lines are remembered.
const (
	quietFor     = 10 * time.Minute
	quietEntries = 1000
)

// quiet returns a log for a library that says the same at every attempt, and does not say
// what to do: lines of one agent that differ in nothing but numbers are logged once in a
// while, and those of advice with what it says.
func quiet(log *zap.Logger, advice map[string]string) *zap.Logger {
	known := map[*regexp.Regexp]string{}
	for pattern, what := range advice {
		known[regexp.MustCompile(pattern)] = what
	}
	said := &said{last: map[string]time.Time{}}
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return quietCore{Core: c, said: said, advice: known} }))
}

type quietCore struct {
	zapcore.Core
	said   *said
	advice map[*regexp.Regexp]string
	fields []zapcore.Field // of every line
}

// With implements zapcore.Core.
func (q quietCore) With(fields []zapcore.Field) zapcore.Core {
	q.Core = q.Core.With(fields)
	q.fields = slices.Concat(q.fields, fields)
	return q
}

// Check implements zapcore.Core.
func (q quietCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if q.Enabled(e.Level) {
		return to.AddCore(e, q)
	}
	return to
}

// Write implements zapcore.Core.
func (q quietCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if !q.said.isNew(e.Time, gist(e.Message, slices.Concat(q.fields, fields))) {
		return nil
	}
	for pattern, what := range q.advice {
		if pattern.MatchString(e.Message) {
			fields = append(fields, zap.String("advice", what))
		}
	}
	return q.Core.Write(e, fields)
}

// numbers are what makes equal lines differ: numbers, and what a peer tried that it may not,
// which it can choose as it likes.
var numbers = regexp.MustCompile(`[0-9]+|Violation .*`)

// gist returns what a line says, without the numbers in it but for those in the agent's name.
func gist(message string, fields []zapcore.Field) string {
	all := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(all)
	}
	agent := all.Fields["agent"]
	delete(all.Fields, "agent")
	return fmt.Sprint(agent, " ", numbers.ReplaceAllString(fmt.Sprint(message, all.Fields), "0"))
}

// said is the gist of what has been logged, and when.
type said struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func (s *said) isNew(now time.Time, what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, ok := s.last[what]; ok && now.Sub(last) < quietFor {
		return false
	}
	if len(s.last) >= quietEntries {
		clear(s.last)
	}
	s.last[what] = now
	return true
}
