package policy

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Mask is what is written for every value of a Secret, as Argo CD does.
const Mask = "++++++++"

// lastApplied is the annotation in which kubectl keeps what it has applied, values and all.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// roots are where Secrets are in what API servers answer: alone, in a list, in an event of a
// watch, in a row of a table.
var roots = []string{"", "items.", "object.", "rows.object."}

// A masker writes JSON values anew, with what is secret in them masked, one after the other as
// they come: a value of any size is never held whole.
type masker struct {
	dec       *json.Decoder
	out       *bufio.Writer
	flush     func() // after each value
	sensitive []string
	path      []string // names of objects that are open; arrays have none
}

// mask copies JSON values from r to w, and masks what they hold of Secrets. It returns nil at
// the end of r, if that is the end of a value. flush is called after each value.
func mask(w io.Writer, r io.Reader, sensitive []string, flush func()) error {
	m := &masker{dec: json.NewDecoder(r), out: bufio.NewWriter(w), flush: flush, sensitive: append([]string{lastApplied}, sensitive...)}
	m.dec.UseNumber()
	for {
		err := m.value()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			_ = m.out.WriteByte('\n') // which Flush reports
			err = m.out.Flush()
		}
		if err != nil {
			return fmt.Errorf("policy: mask Secrets: %w", err)
		}
		m.flush()
	}
}

// value copies the next value.
func (m *masker) value() error {
	token, err := m.dec.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('{'):
		return inside(m.fields())
	case json.Delim('['):
		return inside(m.elements())
	}
	if m.secret() && token != nil {
		token = Mask
	}
	return m.put(token)
}

// inside makes of an end within a value what it is.
func inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (m *masker) fields() error {
	_ = m.out.WriteByte('{')
	for first := true; m.dec.More(); first = false {
		if !first {
			_ = m.out.WriteByte(',')
		}
		token, err := m.dec.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string) // the decoder knows no other
		if err := m.put(name); err != nil {
			return err
		}
		_ = m.out.WriteByte(':')
		m.path = append(m.path, name)
		if err := m.value(); err != nil {
			return err
		}
		m.path = m.path[:len(m.path)-1]
	}
	return m.close('}')
}

func (m *masker) elements() error {
	_ = m.out.WriteByte('[')
	for first := true; m.dec.More(); first = false {
		if !first {
			_ = m.out.WriteByte(',')
		}
		if err := m.value(); err != nil {
			return err
		}
	}
	return m.close(']')
}

func (m *masker) close(end byte) error {
	if _, err := m.dec.Token(); err != nil {
		return err
	}
	return m.out.WriteByte(end)
}

func (m *masker) put(token any) error {
	text, err := json.Marshal(token)
	if err != nil {
		return err
	}
	_, err = m.out.Write(text)
	return err
}

// secret reports whether the value that comes next is: whatever is below data and stringData,
// and annotations that repeat it.
func (m *masker) secret() bool {
	path := strings.Join(m.path, ".")
	return slices.ContainsFunc(roots, func(root string) bool {
		at, ok := strings.CutPrefix(path, root)
		if !ok {
			return false
		}
		if annotation, ok := strings.CutPrefix(at, "metadata.annotations."); ok {
			return slices.Contains(m.sensitive, annotation)
		}
		top, _, _ := strings.Cut(at, ".")
		return top == "data" || top == "stringData"
	})
}
