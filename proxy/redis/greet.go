package redis

import (
	"context"
	"slices"
	"strings"
	"time"
)

// greeted answers what a client says of itself, and all that it asks before it has said who it
// is; else it returns nil.
func (s *session) greeted(name string, args [][]byte) *answer {
	switch {
	case name == "HELLO":
		return s.hello(args[1:])
	case name == "AUTH" && len(args) == 2:
		return s.auth("", string(args[1]))
	case name == "AUTH" && len(args) == 3:
		return s.auth(string(args[1]), string(args[2]))
	case name == "AUTH":
		return known(failure("ERR wrong number of arguments for 'auth' command"))
	case name == "QUIT":
		return known(status("OK"))
	case !s.known:
		return known(failure("NOAUTH Authentication required."))
	}
	return nil
}

func (s *session) auth(user, password string) *answer {
	if !s.desk.admits(user, password) {
		return known(failure("WRONGPASS invalid username-password pair or user is disabled."))
	}
	s.known = true
	return known(status("OK"))
}

// hello answers HELLO [version [AUTH user password] [SETNAME name]].
func (s *session) hello(args [][]byte) *answer {
	v := s.version
	if len(args) > 0 {
		switch string(args[0]) {
		case "2":
			v = 2
		case "3":
			v = 3
		default:
			return known(failure("NOPROTO unsupported protocol version"))
		}
		args = args[1:]
	}
	for len(args) > 0 {
		switch option := strings.ToUpper(string(args[0])); {
		case option == "AUTH" && len(args) > 2:
			if !s.desk.admits(string(args[1]), string(args[2])) {
				return known(failure("WRONGPASS invalid username-password pair or user is disabled."))
			}
			s.known, args = true, args[3:]
		case option == "SETNAME" && len(args) > 1:
			args = args[2:]
		default:
			return known(failure("ERR Syntax error in HELLO"))
		}
	}
	if !s.known {
		return known(failure("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"))
	}
	s.version = v
	text := v.fields(nil, 7)
	text = bulk(bulk(text, "server"), "redis")
	text = bulk(bulk(text, "version"), "7.0.0")
	text = append(bulk(text, "proto"), number(int(v))...)
	text = append(bulk(text, "id"), number(1)...)
	text = bulk(bulk(text, "mode"), "standalone")
	text = bulk(bulk(text, "role"), "master")
	text = append(bulk(text, "modules"), head(nil, '*', 0)...)
	a := newAnswer()
	a.version = v
	a.give(text)
	return a
}

// An ear is a channel, or a pattern of channels, that somebody listens to.
type ear struct {
	pattern bool
	name    string
}

// subscription answers what is about channels, and all that a client may not ask while it
// listens; else it returns nil.
func (s *session) subscription(ctx context.Context, name string, args [][]byte) *answer {
	switch {
	case slices.Contains([]string{"SUBSCRIBE", "PSUBSCRIBE"}, name) && len(args) > 1:
		return s.subscribe(ctx, name == "PSUBSCRIBE", args[1:])
	case name == "UNSUBSCRIBE", name == "PUNSUBSCRIBE":
		return s.unsubscribe(name == "PUNSUBSCRIBE", args[1:])
	case len(s.heard) == 0:
		return nil
	case name == "PING" && s.version == 2:
		return known(bulk(bulk(head(nil, '*', 2), "pong"), string(slices.Concat(args[1:]...))))
	case name == "PING" && len(args) == 1:
		return known(status("PONG"))
	case s.version == 2:
		return known(failure("ERR Can't execute '" + strings.ToLower(name) + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"))
	}
	return nil
}

// maxEars is how many channels and patterns a client may listen to.
const maxEars = 1024

// settling is how long a client waits to be told that it listens. If it cannot be heard by
// then what is said, it is told that there is something new once it can.
const settling = time.Second

func (s *session) subscribe(ctx context.Context, pattern bool, names [][]byte) *answer {
	kind := "subscribe"
	if pattern {
		kind = "psubscribe"
	}
	if slices.ContainsFunc(names, func(n []byte) bool { return len(n) > maxKey }) {
		return known(failure("ERR the name of a channel is too long"))
	}
	var text []byte
	var ready []<-chan struct{}
	for _, n := range names {
		e := ear{pattern, string(n)}
		if s.heard[e] == nil {
			if len(s.heard) >= maxEars {
				return known(failure("ERR too many channels"))
			}
			r, stop := s.listen(e)
			s.heard[e], ready = stop, append(ready, r)
		}
		text = append(bulk(bulk(s.version.push(text, 3), kind), e.name), number(len(s.heard))...)
	}
	a := newAnswer()
	s.beside.Go(func() {
		defer a.give(text)
		late := time.NewTimer(settling)
		defer late.Stop()
		for _, r := range ready {
			select {
			case <-r:
			case <-late.C:
				return
			case <-ctx.Done():
				return
			}
		}
	})
	return a
}

func (s *session) listen(e ear) (ready <-chan struct{}, stop func()) {
	if !e.pattern {
		if ready, stop := s.desk.listen(s, e.name); ready != nil {
			return ready, stop
		}
	}
	return s.ears.open(e), func() { s.ears.shut(e) }
}

func (s *session) unsubscribe(pattern bool, names [][]byte) *answer {
	kind := "unsubscribe"
	if pattern {
		kind = "punsubscribe"
	}
	if len(names) == 0 {
		for e := range s.heard {
			if e.pattern == pattern {
				names = append(names, []byte(e.name))
			}
		}
	}
	var text []byte
	for _, n := range names {
		e := ear{pattern, string(n)}
		if stop := s.heard[e]; stop != nil {
			stop()
			delete(s.heard, e)
		}
		text = append(bulk(bulk(s.version.push(text, 3), kind), e.name), number(len(s.heard))...)
	}
	if len(names) == 0 {
		text = append(append(bulk(s.version.push(nil, 3), kind), s.version.null()...), number(len(s.heard))...)
	}
	return known(text)
}

// hear has the client told what was said on a channel of the Redis' behind; it may wait.
func (s *session) hear(ctx context.Context, e ear, channel, payload string) {
	pattern := ""
	if e.pattern {
		pattern = e.name
	}
	select {
	case s.pushes <- func(v version) []byte { return v.message(pattern, channel, payload) }:
	case <-ctx.Done():
	}
}
