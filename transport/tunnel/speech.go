package tunnel

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
)

// A speech is what somebody who has connected speaks.
type speech uint8

const (
	plainText speech = iota // what is no TLS, to be answered as HTTP/1.1
	overTLS                 // HTTP/1.1 over TLS, which is what nothing else is said to be
	another                 // TLS that is not for HTTP/1.1
)

// handshakeRecord is the first byte of a TLS connection, and no text.
const handshakeRecord = 0x16

// listenTo reads as much of a connection as tells what it speaks, and returns it as it was
// before. An error is that it has ended, or does not say it within its deadline.
func listenTo(conn net.Conn) (speech, net.Conn, error) {
	var said bytes.Buffer
	first := make([]byte, 1)
	if _, err := io.ReadFull(conn, first); err != nil {
		return 0, nil, err
	}
	said.Write(first)
	if first[0] != handshakeRecord {
		return plainText, replay(&said, conn), nil
	}
	listener := &ear{Conn: conn, from: io.MultiReader(bytes.NewReader(first), io.TeeReader(conn, &said))}
	speaks := another // and so what is no TLS
	err := tls.Server(listener, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		if len(h.SupportedProtos) == 0 || slices.Contains(h.SupportedProtos, "http/1.1") {
			speaks = overTLS
		}
		return nil, errHeard
	}}).Handshake()
	if listener.err != nil {
		return 0, nil, listener.err
	}
	_ = err // errHeard, or what whoever is to serve it will say better
	return speaks, replay(&said, conn), nil
}

var errHeard = errors.New("tunnel: it has been heard")

// An ear is a connection to which nothing is said.
type ear struct {
	net.Conn
	from io.Reader
	err  error // with which reading has ended
}

func (e *ear) Read(b []byte) (n int, err error) {
	n, err = e.from.Read(b)
	if err != nil {
		e.err = err
	}
	return n, err
}

func (e *ear) Write(b []byte) (int, error) { return len(b), nil }
func (e *ear) Close() error                { return nil }

// A replayed is a connection of which the beginning has been read.
type replayed struct {
	net.Conn
	from io.Reader
}

func replay(said io.Reader, conn net.Conn) net.Conn {
	return &replayed{conn, io.MultiReader(said, conn)}
}

// Read implements net.Conn.
func (r *replayed) Read(b []byte) (int, error) { return r.from.Read(b) }
