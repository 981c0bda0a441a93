package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// refused is what a refusal begins with.
const refused = "NOPERM "

// A Spoke is the service of an agent's process that reads from the agent's Redis. It serves a
// hub that may be hostile: what it is not made for it refuses, and what it is asked costs no
// more than it may.
type Spoke struct {
	cfg   SpokeConfig
	slots chan struct{}
}

// SpokeConfig is what a Spoke is made of. All fields are needed.
type SpokeConfig struct {
	Redis Server // of the agent's Argo CD
	// Has reports whether the agent has an Application, and tells of it; the namespace "" is
	// that of Argo CD.
	Has func(namespace, name string) bool
	Log *zap.Logger
}

// maxStreams is how many streams a Spoke serves at a time.
const maxStreams = 128

// NewSpoke returns a Spoke.
func NewSpoke(c SpokeConfig) (*Spoke, error) {
	if c.Redis.Address == "" || c.Has == nil || c.Log == nil {
		return nil, errors.New("redis: the address of the agent's Redis, what the agent has, and a log are needed")
	}
	return &Spoke{cfg: c, slots: make(chan struct{}, maxStreams)}, nil
}

// Serve implements [proxy.Service]: it answers what is asked on one stream, in order. Each
// stream has a connection to Redis of its own, so that nothing is left of what has failed.
func (s *Spoke) Serve(ctx context.Context, c net.Conn) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	end := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer end()
	defer c.Close() // what was asked is answered, or the hub has gone
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		_, _ = c.Write(failure("ERR max number of clients reached")) // the hub hears that it is closed anyway
		return
	}
	v := visit{Spoke: s, hub: c, in: newReader(c, maxAsk)}
	defer v.close()
	if err := v.run(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) {
		s.cfg.Log.Debug("what the hub asks of Redis has ended", zap.Error(err))
	}
}

// maxAsk is the largest thing that a hub may ask, in bytes.
const maxAsk = 64 << 10

// A visit is one stream.
type visit struct {
	*Spoke
	hub net.Conn
	in  *reader

	mu    sync.Mutex // of what is written to the hub
	redis *line
	heard map[string]bool // channels
	tells chan error      // once Redis has nothing to tell any more; nil if it is not listened to
}

func (v *visit) close() {
	if v.redis != nil {
		_ = v.redis.Close() // nothing is written there
	}
	if v.tells != nil {
		<-v.tells
	}
}

// run answers until the hub has nothing to ask any more, or Redis breaks.
func (v *visit) run(ctx context.Context) error {
	for {
		_ = v.hub.SetReadDeadline(time.Now().Add(2 * silence)) // who listens asks whether it is still there
		args, err := v.in.command()
		if err != nil {
			return err
		}
		if err := v.answer(ctx, strings.ToUpper(string(args[0])), args[1:]); err != nil {
			return err
		}
	}
}

func (v *visit) answer(ctx context.Context, name string, args [][]byte) error {
	_, reads := readings[name]
	switch {
	case name == "PING" && len(args) == 0 && v.tells == nil:
		return v.tell(status("PONG"))
	case name == "PING" && len(args) == 0:
		return v.ask(ctx, command("PING"))
	case reads && len(args) == 1 && v.tells == nil:
		return v.read(ctx, name, string(args[0]))
	case name == "SUBSCRIBE" && len(args) == 1:
		return v.listen(ctx, string(args[0]))
	case name == "UNSUBSCRIBE" && len(args) == 1 && v.heard[string(args[0])]:
		delete(v.heard, string(args[0]))
		return v.ask(ctx, command("UNSUBSCRIBE", string(args[0])))
	}
	return v.tell(failure(fmt.Sprintf("%sthe hub may ask an agent's Redis nothing like '%.20s' with %d arguments here", refused, strings.ToLower(name), len(args))))
}

// allowed returns why something may not be read, "" if it may.
func (v *visit) allowed(text string) string {
	k, ok := ParseKey(text)
	switch {
	case !ok:
		return refused + "the hub reads nothing else of an agent's Redis than app|resources-tree|… and app|managed-resources|…"
	case !v.cfg.Has(k.Namespace, k.Name):
		return refused + "the agent has no such Application"
	}
	return ""
}

// read answers a command that is one of readings.
func (v *visit) read(ctx context.Context, name, key string) error {
	if why := v.allowed(key); why != "" {
		return v.tell(failure(why))
	}
	if err := v.ask(ctx, command(name, key)); err != nil {
		return v.tell(failure("ERR the agent's Redis: " + err.Error()))
	}
	_ = v.hub.SetWriteDeadline(time.Now().Add(slowest)) // a stream that cannot is closed
	return v.redis.in.copy(v.hub)
}

// ask says something to Redis, which is reached first if it is not yet.
func (v *visit) ask(ctx context.Context, text []byte) error {
	if v.redis == nil {
		l, err := v.cfg.Redis.dial(ctx, 2, maxValue)
		if err != nil {
			return err
		}
		v.redis = l
	}
	_ = v.redis.SetDeadline(time.Now().Add(patience)) // a connection that cannot is closed
	_, err := v.redis.Write(text)
	return err
}

// listen begins to listen to a channel. From then on what Redis says goes to the hub as it is.
func (v *visit) listen(ctx context.Context, channel string) error {
	why := v.allowed(channel)
	if k, _ := ParseKey(channel); why == "" && !k.channel() {
		why = refused + "that is no channel"
	}
	if why == "" && len(v.heard) >= maxEars {
		why = "ERR too many channels"
	}
	if why != "" {
		return v.tell(failure(why))
	}
	if err := v.ask(ctx, command("SUBSCRIBE", channel)); err != nil {
		return err
	}
	if v.tells == nil {
		v.heard, v.tells = map[string]bool{}, make(chan error, 1)
		go func() {
			v.tells <- v.relay()
			_ = v.hub.Close() // the hub comes again
		}()
	}
	v.heard[channel] = true
	return nil
}

// relay passes on what Redis says until one of the two breaks.
func (v *visit) relay() error {
	for {
		value, err := v.redis.in.value()
		if err != nil {
			return err
		}
		if err := v.tell(value); err != nil {
			return err
		}
	}
}

func (v *visit) tell(text []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	_ = v.hub.SetWriteDeadline(time.Now().Add(slowest)) // a stream that cannot is closed
	_, err := v.hub.Write(text)
	return err
}
