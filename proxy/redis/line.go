package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// A Server says how a Redis is reached. Address is needed.
type Server struct {
	Address string      // host and port
	TLS     *tls.Config // nil is a connection in clear
	// Credentials returns user and password, and is asked for each connection, so that a
	// password may change; nil is none. An empty user is Redis' default one.
	Credentials func(context.Context) (user, password string, err error)
}

// patience is how long a Redis that is near may take for what it is asked.
const patience = 30 * time.Second

// connecting is how long it may take to be reached.
const connecting = 5 * time.Second

// A line is a connection to a Redis. One goroutine writes, and one reads.
type line struct {
	net.Conn
	in      *reader
	version version
}

// dial connects. Values that are larger than limit are not taken.
func (s Server) dial(ctx context.Context, v version, limit int) (*line, error) {
	ctx, stop := context.WithTimeout(ctx, connecting)
	defer stop()
	l, err := s.connect(ctx, limit)
	if err != nil {
		return nil, fmt.Errorf("redis: reach %s: %w", s.Address, err)
	}
	if err := l.greet(ctx, s, v); err != nil {
		_ = l.Close() // nothing was done on it
		return nil, fmt.Errorf("redis: reach %s: %w", s.Address, err)
	}
	return l, nil
}

func (s Server) connect(ctx context.Context, limit int) (*line, error) {
	dial := (&net.Dialer{}).DialContext
	if s.TLS != nil {
		dial = (&tls.Dialer{Config: s.TLS}).DialContext
	}
	c, err := dial(ctx, "tcp", s.Address)
	if err != nil {
		return nil, err
	}
	return newLine(c, limit), nil
}

func newLine(c net.Conn, limit int) *line { return &line{Conn: c, in: newReader(c, limit), version: 2} }

// greet says who asks, and in which version.
func (l *line) greet(ctx context.Context, s Server, v version) error {
	end := context.AfterFunc(ctx, func() { _ = l.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if end() {
			_ = l.SetDeadline(time.Time{})
		}
	}()
	if s.Credentials != nil {
		user, password, err := s.Credentials(ctx)
		if err != nil {
			return err
		}
		if password != "" {
			auth := []string{"AUTH", user, password}
			if user == "" {
				auth = []string{"AUTH", password}
			}
			if err := l.must(auth...); err != nil {
				return err
			}
		}
	}
	if v != l.version {
		return l.speak(v)
	}
	return l.must("PING") // something may accept connections in the place of a Redis that is away
}

// speak changes the version.
func (l *line) speak(v version) error {
	err := l.must("HELLO", string('0'+rune(v)))
	if err == nil {
		l.version = v
	}
	return err
}

// must asks something whose answer may not be a failure. What was asked is not said.
func (l *line) must(args ...string) error {
	if _, err := l.Write(command(args...)); err != nil {
		return err
	}
	answer, err := l.in.value()
	if err != nil {
		return err
	}
	if answer[0] == '-' {
		return errors.New(string(plain(answer)))
	}
	return nil
}
