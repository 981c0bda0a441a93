package redis

import (
	"strconv"
	"strings"
)

// A version is that of the protocol on a connection: 2 or 3.
type version int

// null is what is not there.
func (v version) null() []byte {
	if v == 3 {
		return []byte("_\r\n")
	}
	return []byte("$-1\r\n")
}

// push is the beginning of what comes unasked, of n values.
func (v version) push(b []byte, n int) []byte {
	if v == 3 {
		return head(b, '>', n)
	}
	return head(b, '*', n)
}

// fields is the beginning of n names with a value each.
func (v version) fields(b []byte, n int) []byte {
	if v == 3 {
		return head(b, '%', n)
	}
	return head(b, '*', 2*n)
}

func head(b []byte, kind byte, n int) []byte {
	b = strconv.AppendInt(append(b, kind), int64(n), 10)
	return append(b, '\r', '\n')
}

func bulk(b []byte, text string) []byte {
	return append(append(head(b, '$', len(text)), text...), '\r', '\n')
}

// status says that something was done.
func status(text string) []byte { return []byte("+" + text + "\r\n") }

// number is a number.
func number(n int) []byte { return head(nil, ':', n) }

// failure says why something was not done. The first word of a text is what programs know it
// by.
func failure(text string) []byte {
	return []byte("-" + strings.NewReplacer("\r", " ", "\n", " ").Replace(text) + "\r\n")
}

// command is what a client asks.
func command(args ...string) []byte {
	b := head(nil, '*', len(args))
	for _, a := range args {
		b = bulk(b, a)
	}
	return b
}

// message is what is said on a channel.
func (v version) message(pattern, channel, payload string) []byte {
	if pattern != "" {
		return bulk(bulk(bulk(bulk(v.push(nil, 4), "pmessage"), pattern), channel), payload)
	}
	return bulk(bulk(bulk(v.push(nil, 3), "message"), channel), payload)
}
