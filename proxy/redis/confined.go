package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
)

// A Confined is a service of the principal's process that shows one agent a part of the hub's
// Redis as if it were all of it: every key and every channel that the agent names begins, in
// that Redis, with a prefix that is the agent's own, whatever the agent says. So no agent can
// read, change or guess what another has there, or the hub: Argo CD's keys of Applications of
// one name are the same on every spoke.
//
// The agent is known by its link, and needs no password; one that it gives is neither looked at
// nor passed on. It may do what Argo CD's application controller and repo-server do, see
// permitted, and what it writes is forgotten after a day at the latest.
type Confined struct {
	cfg   ConfinedConfig
	slots chan struct{}
}

// ConfinedConfig is what a Confined is made of. All fields are needed.
type ConfinedConfig struct {
	Redis  Server
	Prefix string // of all keys and channels; no two agents' may begin with one another
	Conns  int    // how many connections there may be at a time
	Log    *zap.Logger
}

// NewConfined returns a Confined.
func NewConfined(c ConfinedConfig) (*Confined, error) {
	switch {
	case c.Redis.Address == "" || c.Prefix == "" || c.Log == nil:
		return nil, errors.New("redis: the address of Redis, a prefix and a log are needed")
	case c.Conns < 1:
		return nil, fmt.Errorf("redis: %d connections", c.Conns)
	}
	return &Confined{cfg: c, slots: make(chan struct{}, c.Conns)}, nil
}

// maxShared is the largest value that an agent may keep in the hub's Redis, in bytes.
const maxShared = 16 << 20

// Serve implements [proxy.Service].
func (d *Confined) Serve(ctx context.Context, c net.Conn) {
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	default:
		_, _ = c.Write(failure("ERR max number of clients reached")) // the agent hears that it is closed anyway
		_ = c.Close()
		return
	}
	newSession(c, d, behind{d.cfg.Redis, maxShared, d.cfg.Prefix}, d.cfg.Log).run(ctx)
}

func (*Confined) open() bool { return true }

func (*Confined) admits(string, string) bool { return true }

func (*Confined) listen(*session, string) (<-chan struct{}, func()) { return nil, nil }

// longest is how long something is kept that an agent writes.
const longest = 24 * time.Hour

// permitted are the commands that are passed on, each with what becomes of its arguments; an
// error says why they are not taken.
var permitted = map[string]func(d *Confined, args []string) ([]string, error){
	"GET":     keys(1, 1),
	"TTL":     keys(1, 1),
	"PTTL":    keys(1, 1),
	"STRLEN":  keys(1, 1),
	"EXISTS":  keys(1, maxKeys),
	"DEL":     keys(1, maxKeys),
	"UNLINK":  keys(1, maxKeys),
	"RENAME":  keys(2, 2),
	"SET":     (*Confined).set,
	"EXPIRE":  (*Confined).expire,
	"PUBLISH": (*Confined).publish,
	"PING":    func(_ *Confined, args []string) ([]string, error) { return args, nil },
	"ECHO":    func(_ *Confined, args []string) ([]string, error) { return args, nil },
}

// maxKeys is how many keys may be named at once.
const maxKeys = 1000

// errArguments is what Redis says, too.
var errArguments = errors.New("ERR wrong number of arguments, or a syntax error")

// keys is what becomes of arguments that are all keys.
func keys(least, most int) func(*Confined, []string) ([]string, error) {
	return func(d *Confined, args []string) ([]string, error) {
		if len(args) < least || len(args) > most {
			return nil, errArguments
		}
		for i := range args {
			args[i] = d.cfg.Prefix + args[i]
		}
		return args, nil
	}
}

// answer implements desk.
func (d *Confined) answer(_ context.Context, _ *session, name string, args [][]byte) (*answer, []byte) {
	text := make([]string, 0, len(args))
	for _, a := range args[1:] {
		text = append(text, string(a))
	}
	switch {
	case name == "CLIENT" && len(text) > 0 && strings.HasPrefix(strings.ToUpper(text[0]), "SET"):
		return known(status("OK")), nil // how it calls itself
	case name == "SELECT" && len(text) == 1 && text[0] == "0":
		return known(status("OK")), nil // there is no other
	}
	rewrite, ok := permitted[name]
	if !ok {
		return known(failure(fmt.Sprintf("%san agent that shares the hub's Redis may not ask '%.20s'", refused, strings.ToLower(name)))), nil
	}
	text, err := rewrite(d, text)
	if err != nil {
		return known(failure(err.Error())), nil
	}
	return nil, command(append([]string{name}, text...)...)
}

// set sees to it that what is set does not stay for good.
func (d *Confined) set(args []string) ([]string, error) {
	if len(args) < 2 {
		return nil, errArguments
	}
	out, expires := []string{d.cfg.Prefix + args[0], args[1]}, false
	for rest := args[2:]; len(rest) > 0; rest = rest[1:] {
		switch option := strings.ToUpper(rest[0]); {
		case option == "NX", option == "XX":
			out = append(out, option)
		case (option == "EX" || option == "PX") && len(rest) > 1 && !expires:
			life, err := lifetime(rest[1], map[string]time.Duration{"EX": time.Second, "PX": time.Millisecond}[option])
			if err != nil {
				return nil, err
			}
			out, expires, rest = append(out, "PX", life), true, rest[1:]
		default:
			return nil, errArguments
		}
	}
	if !expires {
		out = append(out, "PX", strconv.FormatInt(longest.Milliseconds(), 10))
	}
	return out, nil
}

func (d *Confined) expire(args []string) ([]string, error) {
	if len(args) != 2 {
		return nil, errArguments
	}
	seconds, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return nil, errArguments
	}
	return []string{d.cfg.Prefix + args[0], strconv.FormatInt(min(seconds, int64(longest/time.Second)), 10)}, nil
}

func (d *Confined) publish(args []string) ([]string, error) {
	if len(args) != 2 {
		return nil, errArguments
	}
	return []string{d.cfg.Prefix + args[0], args[1]}, nil
}

// lifetime returns how long something is kept that is to be for n units, in milliseconds.
func lifetime(n string, unit time.Duration) (string, error) {
	v, err := strconv.ParseInt(n, 10, 64)
	if err != nil || v <= 0 {
		return "", errors.New("ERR invalid expire time in 'set' command")
	}
	return strconv.FormatInt(min(v, int64(longest/unit))*int64(unit)/int64(time.Millisecond), 10), nil
}
