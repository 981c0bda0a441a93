package wire

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// The values of the reserved keys as JSON. Numbers of 64 bits are text, because many
// readers of JSON keep only 53 of them: sums are 16 hexadecimal digits, the others
// decimal.

type manifest struct {
	Epoch    string  `json:"epoch"`
	By       string  `json:"by"`
	Since    uint64  `json:"since,string"`
	Age      uint64  `json:"age,string"`
	Peak     uint64  `json:"peak,string"`
	Count    int     `json:"count"`
	Root     string  `json:"root"`
	Answered *ticket `json:"answered,omitempty"`
}

func manifestOf(m engine.Manifest) manifest {
	return manifest{m.Epoch, m.By, m.Since, m.Age, m.Peak, m.Count, hex(m.Root), ticketOf(m.Answered)}
}

func (m manifest) body() (engine.Manifest, error) {
	root, err := parseHex(m.Root)
	if m.Count < 0 {
		err = fmt.Errorf("%w: %d rows", ErrMalformed, m.Count)
	}
	return engine.Manifest{
		Epoch: m.Epoch, By: m.By, Since: m.Since, Age: m.Age, Peak: m.Peak, Count: m.Count, Root: root, Answered: m.Answered.body(),
	}, err
}

// readable reports whether a Manifest reads back as it is. There is one at each Tick of a busy table,
// which is too often to try.
func readable(m engine.Manifest) bool {
	return m.Count >= 0 && utf8.ValidString(m.Epoch) && utf8.ValidString(m.By) && utf8.ValidString(m.Answered.Epoch)
}

type sums struct {
	Answered *ticket  `json:"answered,omitempty"`
	Of       []string `json:"of"` // by bucket
}

func sumsOf(s engine.Sums) sums {
	w := sums{Answered: ticketOf(s.Answered)}
	for _, sum := range s.Of {
		w.Of = append(w.Of, hex(sum))
	}
	return w
}

func (w sums) body() (s engine.Sums, err error) {
	s.Answered = w.Answered.body()
	if len(w.Of) != engine.Buckets {
		return s, fmt.Errorf("%w: sums of %d buckets, not %d", ErrMalformed, len(w.Of), engine.Buckets)
	}
	for i, text := range w.Of {
		if s.Of[i], err = parseHex(text); err != nil {
			return s, err
		}
	}
	return s, nil
}

type ask struct {
	Ticket  *ticket `json:"ticket,omitempty"`
	Of      string  `json:"of,omitempty"`
	Buckets []int   `json:"buckets,omitempty"`
	Have    []have  `json:"have,omitempty"` // sorted by key
}

type have struct {
	Key    string          `json:"key"`
	Digest resource.Digest `json:"digest"`
}

func askOf(a engine.Ask) ask {
	w := ask{Ticket: ticketOf(a.Ticket), Of: a.Of}
	for i := range engine.Buckets {
		if a.Buckets.Has(i) {
			w.Buckets = append(w.Buckets, i)
		}
	}
	for _, k := range sorted(a.Have) {
		w.Have = append(w.Have, have{Name(k), a.Have[k]})
	}
	return w
}

func (w ask) body() (engine.Ask, error) {
	a := engine.Ask{Ticket: w.Ticket.body(), Of: w.Of}
	for _, i := range w.Buckets {
		if i < 0 || i >= engine.Buckets {
			return a, fmt.Errorf("%w: bucket %d", ErrMalformed, i)
		}
		a.Buckets = a.Buckets.With(i)
	}
	for _, h := range w.Have {
		k, err := objectKey(h.Key)
		if err != nil {
			return a, err
		}
		if a.Have == nil {
			a.Have = map[resource.Key]resource.Digest{}
		}
		if _, twice := a.Have[k]; twice || h.Digest == "" {
			return a, fmt.Errorf("%w: %q has no digest, or two", ErrMalformed, h.Key)
		}
		a.Have[k] = h.Digest
	}
	return a, nil
}

type fuse struct {
	By      string    `json:"by"`
	Since   uint64    `json:"since,string"`
	Age     uint64    `json:"age,string"`
	Back    bool      `json:"back,omitempty"`
	Removed []removal `json:"removed,omitempty"`
	Held    []absent  `json:"held,omitempty"`
}

type removal struct {
	At int64  `json:"at"` // Unix seconds
	Of absent `json:"of"`
}

type absent struct {
	Key string `json:"key"`
	UID string `json:"uid,omitempty"`
}

func absentOf(a engine.Absent) absent { return absent{Name(a.Key), a.UID} }

func (w absent) body() (engine.Absent, error) {
	k, err := objectKey(w.Key)
	return engine.Absent{Key: k, UID: w.UID}, err
}

func fuseOf(f engine.Fuse) fuse {
	w := fuse{By: f.By, Since: f.Since, Age: f.Age, Back: f.Back}
	for _, r := range f.Removed {
		w.Removed = append(w.Removed, removal{r.At, absentOf(r.Of)})
	}
	for _, a := range f.Held {
		w.Held = append(w.Held, absentOf(a))
	}
	return w
}

func (w fuse) body() (engine.Fuse, error) {
	f := engine.Fuse{By: w.By, Since: w.Since, Age: w.Age, Back: w.Back}
	for _, r := range w.Removed {
		of, err := r.Of.body()
		if err != nil {
			return f, err
		}
		f.Removed = append(f.Removed, engine.Removal{At: r.At, Of: of})
	}
	for _, a := range w.Held {
		of, err := a.body()
		if err != nil {
			return f, err
		}
		f.Held = append(f.Held, of)
	}
	return f, nil
}

type approval struct {
	Of resource.Digest `json:"of"`
}

func approvalOf(a engine.Approval) approval             { return approval(a) }
func (w approval) body() (a engine.Approval, err error) { return engine.Approval(w), nil }

type half struct {
	Public string `json:"public"`
	Of     string `json:"of,omitempty"`
}

func halfOf(s engine.Seal) half                 { return half(s) }
func (w half) body() (s engine.Seal, err error) { return engine.Seal(w), nil }

type ticket struct {
	Epoch string `json:"epoch"`
	N     uint64 `json:"n,string"`
}

func ticketOf(t engine.Ticket) *ticket {
	if t == (engine.Ticket{}) {
		return nil
	}
	return &ticket{t.Epoch, t.N}
}

func (w *ticket) body() engine.Ticket {
	if w == nil {
		return engine.Ticket{}
	}
	return engine.Ticket(*w)
}

func hex(sum uint64) string { return fmt.Sprintf("%016x", sum) }

func parseHex(text string) (uint64, error) {
	sum, err := strconv.ParseUint(text, 16, 64)
	if err != nil || hex(sum) != text {
		return 0, fmt.Errorf("%w: sum %q", ErrMalformed, text)
	}
	return sum, nil
}

func objectKey(name string) (resource.Key, error) {
	k, err := Key(name)
	if err == nil && engine.Reserved(k) {
		err = fmt.Errorf("%w: %q is no object's key", ErrMalformed, name)
	}
	return k, err
}
