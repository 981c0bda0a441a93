package redis

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// An answer is what a client is to be told, once it is known.
type answer struct {
	done    chan struct{}
	text    []byte  // good once done is closed
	version version // in which is said what comes after it; 0 is as before
}

func newAnswer() *answer { return &answer{done: make(chan struct{})} }

// known returns an answer that is.
func known(text []byte) *answer {
	a := newAnswer()
	a.give(text)
	return a
}

// give says what the answer is, once.
func (a *answer) give(text []byte) {
	a.text = text
	close(a.done)
}

// await returns what is to be said, nothing if ctx is done before.
func (a *answer) await(ctx context.Context, v *version) []byte {
	if a == nil {
		return nil
	}
	select {
	case <-a.done:
	case <-ctx.Done():
		return nil
	}
	if a.version != 0 {
		*v = a.version
	}
	return a.text
}

// A request is what a client asks of the Redis behind.
type request struct {
	text    []byte
	version version
	to      *answer
}

// An upstream has a client's requests answered by the Redis behind, in order, on a connection
// of the client's own: what it sets there holds for it, and for nobody else. When that
// connection breaks the client's is to end, too, as it would if it were the same; one that
// cannot be made is told to the client, who may try again.
type upstream struct {
	server   Server
	limit    int
	requests chan request
	log      *zap.Logger
}

// run answers until ctx is done, or the connection breaks.
func (u *upstream) run(ctx context.Context) error {
	var l *line
	defer func() {
		if l != nil {
			_ = l.Close() // all that was asked is answered, or nobody waits
		}
	}()
	for {
		var batch []request
		select {
		case r := <-u.requests:
			batch = u.gather(r)
		case <-ctx.Done():
			return nil
		}
		if l == nil {
			var err error
			if l, err = u.server.dial(ctx, 2, u.limit); err != nil {
				u.log.Warn("Redis is not reached", zap.Error(err))
				for _, r := range batch {
					r.to.give(failure("LOADING the Redis behind the proxy is not reached: " + err.Error())) // clients know that it may go away
				}
				continue
			}
			stop := context.AfterFunc(ctx, func() { _ = l.SetDeadline(time.Unix(1, 0)) })
			defer stop()
		}
		if err := l.ask(ctx, batch); err != nil {
			return fmt.Errorf("redis: ask %s: %w", u.server.Address, err)
		}
	}
}

// gather returns r and what is asked in the same version by now.
func (u *upstream) gather(r request) []request {
	batch := []request{r}
	for {
		select {
		case next := <-u.requests:
			batch = append(batch, next)
		default:
			return batch
		}
	}
}

// ask has requests answered.
func (l *line) ask(ctx context.Context, batch []request) error {
	for len(batch) > 0 {
		n := 0
		var text bytes.Buffer
		for n < len(batch) && batch[n].version == batch[0].version {
			text.Write(batch[n].text)
			n++
		}
		if err := l.askAll(ctx, batch[:n], text.Bytes()); err != nil {
			return err
		}
		batch = batch[n:]
	}
	return nil
}

// askAll does so for requests of one version.
func (l *line) askAll(ctx context.Context, batch []request, text []byte) error {
	_ = l.SetDeadline(time.Now().Add(patience)) // a connection that cannot is closed
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if v := batch[0].version; v != l.version {
		if err := l.speak(v); err != nil {
			return err
		}
	}
	wrote := make(chan error, 1)
	go func() { // else both sides may wait for the other to read
		_, err := l.Write(text)
		wrote <- err
	}()
	for _, r := range batch {
		value, err := l.in.value()
		if err != nil {
			_ = l.Close()
			<-wrote
			return err
		}
		r.to.give(value)
	}
	return <-wrote
}
