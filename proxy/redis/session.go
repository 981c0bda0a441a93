package redis

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// A session serves one connection of a client. One goroutine reads commands and one writes, in
// the order of the commands, what each is answered, whoever answers it and however long that
// takes; what is said on channels comes between answers.
type session struct {
	conn   net.Conn
	in     *reader
	desk   desk
	behind *upstream
	room   chan struct{}
	ears   *ears
	log    *zap.Logger

	version version
	known   bool // who the client is
	multi   bool // a transaction has begun, which is the Redis' behind
	heard   map[ear]func()
	answers chan *answer
	pushes  chan func(version) []byte
	due     due
	beside  sync.WaitGroup
}

// A desk is what sessions differ in.
type desk interface {
	// admits reports whether a client may ask that says who it is.
	admits(user, password string) bool
	// open reports whether a client may ask that does not say.
	open() bool
	// answer answers a command of a known client; nil leaves it to the Redis behind, as the
	// returned text says it.
	answer(ctx context.Context, s *session, name string, args [][]byte) (*answer, []byte)
	// listen has it noted in s.due when there is something new on a channel that is not the
	// Redis' behind; nil if it is. ready is closed when it can be heard.
	listen(s *session, channel string) (ready <-chan struct{}, stop func())
}

// slowest is how long a client may take to read what it is told.
const slowest = 30 * time.Second

// due are channels on which there is something new.
type due struct {
	mu   sync.Mutex
	of   map[string]bool
	wake chan struct{} // full if there are any
}

func (d *due) note(channel string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of[channel] = true
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *due) take() map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.of
	d.of = map[string]bool{}
	return of
}

// pending is how many commands of a client may wait to be answered.
const pending = 64

// A behind is the Redis that answers what is not answered before it.
type behind struct {
	server Server
	limit  int           // of what a client says, and is told, in bytes
	said   int           // of what is said on channels, in bytes
	prefix string        // of the channels that clients may name
	room   chan struct{} // full if no more may be asked, or be under way to clients, whoever answers; nil is room for all
}

func newSession(c net.Conn, d desk, b behind, log *zap.Logger) *session {
	s := &session{
		conn: c, in: newReader(c, b.limit), desk: d, room: b.room, log: log, version: 2, known: d.open(), heard: map[ear]func(){},
		answers: make(chan *answer, pending), pushes: make(chan func(version) []byte, pending),
		due: due{of: map[string]bool{}, wake: make(chan struct{}, 1)},
	}
	s.behind = &upstream{server: b.server, limit: b.limit, requests: make(chan request, pending), log: log}
	s.ears = newEars(func(ctx context.Context) (*line, error) { return b.server.dial(ctx, 2, b.said) }, b.prefix, log)
	return s
}

// run serves the client until it goes, or ctx is done.
func (s *session) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	end := context.AfterFunc(ctx, func() { _ = s.conn.Close() })
	defer end()
	written := make(chan struct{})
	s.beside.Go(func() {
		defer stop()
		if err := s.behind.run(ctx); err != nil && ctx.Err() == nil {
			s.log.Info("a client's connection ends with that to Redis", zap.Error(err))
		}
	})
	s.beside.Go(func() { s.ears.run(ctx, s.hear) })
	go func() {
		defer close(written)
		defer stop() // who cannot be told anything is not to ask
		s.write(ctx)
	}()
	if err := s.read(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) {
		s.log.Debug("a client's connection has ended", zap.Error(err))
	}
	close(s.answers)
	<-written
	for a := range s.answers {
		a.end() // nobody is told
	}
	stop()
	for _, stop := range s.heard {
		stop()
	}
	s.beside.Wait()
	_ = s.conn.Close() // all that could be said is
}

// read takes commands until the client ends.
func (s *session) read(ctx context.Context) error {
	for {
		s.attend()
		args, err := s.in.command()
		if err != nil {
			if errors.Is(err, errProtocol) || errors.Is(err, errTooLarge) {
				s.say(ctx, known(failure("ERR Protocol error: "+err.Error())))
			}
			return err
		}
		name := strings.ToUpper(string(args[0]))
		a := s.take(ctx, name, args)
		if !s.say(ctx, a) || name == "QUIT" {
			return nil
		}
	}
}

// attend has a client say who it is soon, and in few words.
func (s *session) attend() {
	s.in.limit = s.behind.limit
	deadline := time.Time{}
	if !s.known {
		s.in.limit, deadline = min(s.in.limit, maxAsk), time.Now().Add(connecting)
	}
	_ = s.conn.SetReadDeadline(deadline) // a connection that cannot is closed
}

// say has an answer written after those before; false if nobody writes any more.
func (s *session) say(ctx context.Context, a *answer) bool {
	select {
	case s.answers <- a:
		return true
	case <-ctx.Done():
		a.end()
		return false
	}
}

// take answers a command, or has it answered, once there is room for the answer.
func (s *session) take(ctx context.Context, name string, args [][]byte) *answer {
	if s.room == nil {
		return s.answer(ctx, name, args)
	}
	select {
	case s.room <- struct{}{}:
	case <-ctx.Done():
		return newAnswer() // nobody is told
	}
	a := s.answer(ctx, name, args)
	a.release = func() { <-s.room }
	return a
}

func (s *session) answer(ctx context.Context, name string, args [][]byte) *answer {
	if a := s.greeted(name, args); a != nil {
		return a
	}
	if a := s.subscription(ctx, name, args); a != nil {
		return a
	}
	a, text := s.desk.answer(ctx, s, name, args)
	if a != nil {
		return a
	}
	switch name {
	case "MULTI":
		s.multi = true
	case "EXEC", "DISCARD":
		s.multi = false
	}
	if text == nil {
		text = asked(args)
	}
	a = newAnswer()
	select {
	case s.behind.requests <- request{text, s.version, a}:
	case <-ctx.Done():
	}
	return a
}

// asked is a command as it came.
func asked(args [][]byte) []byte {
	b := head(nil, '*', len(args))
	for _, arg := range args {
		b = append(append(head(b, '$', len(arg)), arg...), '\r', '\n')
	}
	return b
}

// write writes answers in their order until there are no more, and what is on channels
// between them.
func (s *session) write(ctx context.Context) {
	spoken := version(2)
	for {
		text, of, ok := s.next(ctx, &spoken)
		if !ok {
			return
		}
		var err error
		if len(text) > 0 {
			_ = s.conn.SetWriteDeadline(time.Now().Add(slowest)) // a connection that cannot is closed
			_, err = s.conn.Write(text)
		}
		of.end()
		if err != nil {
			return
		}
	}
}

// next returns what the client is to be told next, and the answer that it is, if it is one;
// false at the end. Whoever subscribes is told so before it hears anything.
func (s *session) next(ctx context.Context, v *version) (text []byte, of *answer, more bool) {
	select {
	case of, more = <-s.answers:
		return of.await(ctx, v), of, more
	default:
	}
	select {
	case of, more = <-s.answers:
		return of.await(ctx, v), of, more
	case push := <-s.pushes:
		return push(*v), nil, true
	case <-s.due.wake:
		for channel := range s.due.take() {
			text = append(text, v.message("", channel, "")...)
		}
		return text, nil, true
	case <-ctx.Done():
		return nil, nil, false
	}
}
