package redis

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Errors of what cannot be read. A connection on which one was met is of no use any more.
var (
	errProtocol = errors.New("not the protocol of Redis")
	errTooLarge = errors.New("larger than is taken")
)

// maxDepth is that of values in values.
const maxDepth = 8

// A reader reads what Redis and its clients say, in versions 2 and 3 of their protocol. It
// takes no more memory than has arrived, whatever lengths it is told.
type reader struct {
	r     *bufio.Reader
	limit int // of one value or command, in bytes
}

// newReader returns a reader of r. A line, which is a length or a short value, has at most 4 KiB.
func newReader(r io.Reader, limit int) *reader { return &reader{bufio.NewReaderSize(r, 4<<10), limit} }

// value reads one value, as it is on the wire.
func (r *reader) value() ([]byte, error) {
	var b bytes.Buffer
	if err := r.copy(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// copy writes one value to w as it arrives. After an error part of it may be written.
func (r *reader) copy(w io.Writer) error {
	left := r.limit
	return r.part(w, &left, maxDepth)
}

// part copies a value of which no more than left bytes are taken.
func (r *reader) part(w io.Writer, left *int, depth int) error {
	line, err := r.line(left)
	if err != nil {
		return err
	}
	if _, err := w.Write(line); err != nil {
		return err
	}
	n := 0
	switch kind := line[0]; kind {
	case '+', '-', ':', '_', '#', ',', '(':
		return nil
	case '$', '=', '!':
		if n, err = length(line); n < 0 || err != nil {
			return err
		}
		return r.bytes(w, left, n)
	case '*', '~', '>', '%':
		if n, err = length(line); err != nil {
			return err
		}
		if kind == '%' {
			n *= 2
		}
	default:
		return fmt.Errorf("a value begins with %q: %w", kind, errProtocol)
	}
	if n > 0 && depth == 0 {
		return fmt.Errorf("values in values: %w", errTooLarge)
	}
	for ; n > 0; n-- {
		if err := r.part(w, left, depth-1); err != nil {
			return err
		}
	}
	return nil
}

// line reads to the end of a line, and returns it with that. It is good until the next read.
func (r *reader) line(left *int) ([]byte, error) {
	line, err := r.r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, fmt.Errorf("a line: %w", errTooLarge)
	case err != nil:
		return nil, err
	case len(line) < 3 || line[len(line)-2] != '\r':
		return nil, fmt.Errorf("a line of %d bytes: %w", len(line), errProtocol)
	}
	return line, take(left, len(line))
}

// bytes copies n bytes and the end of a line that follows them.
func (r *reader) bytes(w io.Writer, left *int, n int) error {
	if n > *left-2 {
		return errTooLarge
	}
	if _, err := io.CopyN(w, r.r, int64(n)); err != nil {
		return cut(err)
	}
	var end [2]byte
	if _, err := io.ReadFull(r.r, end[:]); err != nil {
		return cut(err)
	}
	if end != [2]byte{'\r', '\n'} {
		return fmt.Errorf("bytes that do not end where they should: %w", errProtocol)
	}
	if _, err := w.Write(end[:]); err != nil {
		return err
	}
	return take(left, n+2)
}

// argument is what an argument of a command takes beside what it says, in bytes: it counts, or
// many that say nothing would take many times the limit.
const argument = 128

// command reads what a client asks: an array of texts that is not empty. How they are written
// on the command line of a terminal is not taken.
func (r *reader) command() ([][]byte, error) {
	left := r.limit
	line, err := r.line(&left)
	if err != nil {
		return nil, err
	}
	n, err := length(line)
	if err != nil || line[0] != '*' || n < 1 {
		return nil, fmt.Errorf("a command that is no array: %w", errProtocol)
	}
	var args [][]byte
	for ; n > 0; n-- {
		arg, err := r.text(&left)
		if err == nil {
			err = take(&left, argument)
		}
		if err != nil {
			return nil, cut(err)
		}
		args = append(args, arg)
	}
	return args, nil
}

// text reads one text of a command.
func (r *reader) text(left *int) ([]byte, error) {
	line, err := r.line(left)
	if err != nil {
		return nil, err
	}
	n, err := length(line)
	if err != nil || line[0] != '$' || n < 0 {
		return nil, fmt.Errorf("an argument that is no text: %w", errProtocol)
	}
	var b bytes.Buffer
	if err := r.bytes(&b, left, n); err != nil {
		return nil, err
	}
	return b.Bytes()[:n], nil
}

// take counts bytes that were read.
func take(left *int, n int) error {
	if *left -= n; *left < 0 {
		return errTooLarge
	}
	return nil
}

// cut is what the end is in the middle of something.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// length returns the number that a line has behind its first byte; -1 is that of nil.
func length(line []byte) (int, error) {
	n, err := strconv.ParseInt(string(line[1:len(line)-2]), 10, 32)
	if err != nil || n < -1 {
		return 0, fmt.Errorf("a length of %.20q: %w", line[1:len(line)-2], errProtocol)
	}
	return int(n), nil
}

// texts returns the elements of an array of texts, none for any other value.
func texts(value []byte) [][]byte {
	if len(value) == 0 || value[0] != '*' && value[0] != '>' {
		return nil
	}
	r := newReader(bytes.NewReader(value), len(value))
	left := len(value)
	line, err := r.line(&left)
	if err != nil {
		return nil
	}
	n, err := length(line)
	var out [][]byte
	for ; n > 0 && err == nil; n-- {
		var b bytes.Buffer
		err = r.part(&b, &left, 0)
		out = append(out, plain(b.Bytes()))
	}
	if err != nil {
		return nil
	}
	return out
}

// plain returns what a value that holds no others says, nil if it is nil.
func plain(value []byte) []byte {
	if len(value) < 3 || value[0] == '_' || string(value) == "$-1\r\n" {
		return nil
	}
	if value[0] == '$' {
		value = value[bytes.IndexByte(value, '\n'):]
	}
	return value[1 : len(value)-2]
}
