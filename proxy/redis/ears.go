package redis

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Listening is tried again after a pause that doubles from the first to the last. A line on
// which nothing is said is asked every so often whether it is still there, and is taken for
// broken when it does not say so.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 5 * time.Second
	asking     = 10 * time.Second
	silence    = 25 * time.Second
)

// ears listen to channels of one Redis on one line, which is there while there are any, and is
// made again when it breaks. What was said meanwhile is lost: so it is said of Argo CD's
// channels that there is something new when they can be heard again.
type ears struct {
	dial   func(context.Context) (*line, error)
	prefix string // of all names and patterns in that Redis
	log    *zap.Logger
	change chan struct{} // full when wanted has changed

	mu     sync.Mutex
	wanted map[ear]*listening
}

// A listening is to one channel or pattern.
type listening struct {
	since time.Time
	ready chan struct{} // closed once it has been heard
	heard bool          // it has
	on    *line         // on which it was asked for last
}

func newEars(dial func(context.Context) (*line, error), prefix string, log *zap.Logger) *ears {
	return &ears{dial: dial, prefix: prefix, log: log, change: make(chan struct{}, 1), wanted: map[ear]*listening{}}
}

// open begins to listen; ready is closed once something that is said is heard.
func (e *ears) open(to ear) (ready <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := &listening{since: time.Now(), ready: make(chan struct{})}
	e.wanted[to] = l
	e.changed()
	return l.ready
}

// shut ends it.
func (e *ears) shut(to ear) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.wanted, to)
	e.changed()
}

func (e *ears) changed() {
	select {
	case e.change <- struct{}{}:
	default:
	}
}

// idle reports whether there is nothing to listen to.
func (e *ears) idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.wanted) == 0
}

// heard is called with what was said, from one goroutine.
type heard func(ctx context.Context, by ear, channel, payload string)

// run listens until ctx is done.
func (e *ears) run(ctx context.Context, hear heard) {
	complaint := ""
	for pause := firstPause; ; {
		for e.idle() {
			select {
			case <-e.change:
			case <-ctx.Done():
				return
			}
		}
		began := time.Now()
		l, err := e.dial(ctx)
		if err == nil {
			complaint = ""
			err = e.attend(ctx, l, hear)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			continue // there was nothing to listen to any more
		}
		if text := err.Error(); text != complaint {
			complaint = text
			e.log.Info("channels of Redis cannot be heard, which is tried again", zap.Error(err))
		}
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, lastPause)
	}
}

// attend listens on one line until that breaks or there is nothing to listen to.
func (e *ears) attend(ctx context.Context, l *line, hear heard) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	end := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer end()
	said := make(chan error, 1)
	go func() {
		defer stop()
		said <- e.hear(ctx, l, hear)
	}()
	err := e.say(ctx, l)
	stop()
	_ = l.Close() // what is said on it now nobody needs
	if heard := <-said; err == nil && !e.idle() {
		err = heard
	}
	return err
}

// say has the line be what is wanted, until ctx is done or nothing is.
func (e *ears) say(ctx context.Context, l *line) error {
	ask := time.NewTicker(asking)
	defer ask.Stop()
	on := map[ear]*listening{}
	for text := e.differences(l, on); len(on) > 0; {
		_ = l.SetWriteDeadline(time.Now().Add(silence)) // a line that cannot is closed
		if _, err := l.Write(text); err != nil {
			return err
		}
		select {
		case <-e.change:
			text = e.differences(l, on)
		case <-ask.C:
			text = append(e.unheard(), command("PING")...)
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// differences returns what is to be asked for on to be what is wanted, which it then is.
func (e *ears) differences(l *line, on map[ear]*listening) (text []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for to, was := range on {
		if e.wanted[to] != was {
			text = append(text, command(to.verb("UNSUBSCRIBE"), e.prefix+to.name)...)
			delete(on, to)
		}
	}
	for to, is := range e.wanted {
		if on[to] == nil {
			text = append(text, command(to.verb("SUBSCRIBE"), e.prefix+to.name)...)
			on[to], is.on = is, l
		}
	}
	return text
}

// unheard asks again for what was refused, or is not answered yet.
func (e *ears) unheard() (text []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for to, l := range e.wanted {
		if !l.heard && l.on != nil {
			text = append(text, command(to.verb("SUBSCRIBE"), e.prefix+to.name)...)
		}
	}
	return text
}

func (e ear) verb(word string) string {
	if e.pattern {
		return "P" + word
	}
	return word
}

// hear takes what is said on a line until that breaks.
func (e *ears) hear(ctx context.Context, l *line, hear heard) error {
	for {
		_ = l.SetReadDeadline(time.Now().Add(silence)) // a line that cannot is closed
		value, err := l.in.value()
		if err != nil {
			return err
		}
		if value[0] == '-' {
			e.log.Debug("a channel of Redis is refused", zap.String("cause", string(plain(value))))
			continue
		}
		said := texts(value)
		if len(said) < 3 {
			continue // it is still there
		}
		by := ear{name: strings.TrimPrefix(string(said[1]), e.prefix)}
		switch kind := string(said[0]); {
		case kind == "subscribe", kind == "psubscribe":
			if by.pattern = kind == "psubscribe"; e.ready(l, by) {
				hear(ctx, by, by.name, "")
			}
		case kind == "message" && e.wants(by):
			hear(ctx, by, by.name, string(said[2]))
		case kind == "pmessage" && len(said) > 3:
			if by.pattern = true; e.wants(by) {
				hear(ctx, by, strings.TrimPrefix(string(said[2]), e.prefix), string(said[3]))
			}
		}
	}
}

func (e *ears) wants(to ear) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.wanted[to] != nil
}

// ready notes that something can be heard, and reports whether something may have been said
// that was not.
func (e *ears) ready(on *line, to ear) (again bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.wanted[to]
	if l == nil || l.on != on {
		return false
	}
	k, ok := ParseKey(to.name)
	again = ok && k.channel() && (l.heard || time.Since(l.since) >= settling)
	if !l.heard {
		l.heard = true
		close(l.ready)
	}
	return again
}
