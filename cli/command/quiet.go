package command

import (
	"regexp"
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
// what to do: lines that differ in nothing but numbers are logged once in a while, and
// those of advice with what it says.
func quiet(log *zap.Logger, advice map[string]string) *zap.Logger {
	known := map[*regexp.Regexp]string{}
	for pattern, what := range advice {
		known[regexp.MustCompile(pattern)] = what
	}
	said := &said{last: map[string]time.Time{}}
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return quietCore{c, said, known} }))
}

type quietCore struct {
	zapcore.Core
	said   *said
	advice map[*regexp.Regexp]string
}

// With implements zapcore.Core.
func (q quietCore) With(fields []zapcore.Field) zapcore.Core {
	q.Core = q.Core.With(fields)
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
	if !q.said.isNew(e.Time, e.Message) {
		return nil
	}
	for pattern, what := range q.advice {
		if pattern.MatchString(e.Message) {
			fields = append(fields, zap.String("advice", what))
		}
	}
	return q.Core.Write(e, fields)
}

// said is what has been logged, without the numbers in it, and when.
type said struct {
	mu   sync.Mutex
	last map[string]time.Time
}

var numbers = regexp.MustCompile(`[0-9]+`)

func (s *said) isNew(now time.Time, message string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	what := numbers.ReplaceAllString(message, "0")
	if last, ok := s.last[what]; ok && now.Sub(last) < quietFor {
		return false
	}
	if len(s.last) >= quietEntries {
		clear(s.last)
	}
	s.last[what] = now
	return true
}
