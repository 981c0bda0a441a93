package wire

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Prefix begins the type of every event.
const Prefix = "io.argoproj.argocd-agent.event."

// A row of the table says how one type of event is written and read.
type row struct {
	name string // the type, after Prefix
	// keys says which keys may have a value of the type.
	keys   func(resource.Key) bool
	encode func(engine.Body) (p payload, ok bool, err error) // ok says that the body is of the type
	decode func(payload) (engine.Body, error)
}

// A payload is what an event says that depends on its type.
type payload struct {
	extensions texts
	data       []byte // nil is absent
}

// table is all the types that there are.
var table = []row{
	{"state", object, encodeRecord, decodeRecord},
	{"tombstone", removable, encodeTombstone, decodeTombstone},
	{sealed, secretive, encodeNothing, decodeRecord}, // see sealed.go
	inJSON("manifest", engine.ManifestKey, manifestOf, manifest.body, readable),
	inJSON("sums", engine.SumsKey, sumsOf, sums.body, nil),
	inJSON("ask", engine.AskKey, askOf, ask.body, nil),
	inJSON("fuse", engine.FuseKey, fuseOf, fuse.body, nil),
	inJSON("approval", engine.ApprovalKey, approvalOf, approval.body, nil),
	inJSON("seal", engine.SealKey, halfOf, half.body, nil),
}

// Types returns the types of all events.
func Types() (all []string) {
	for _, r := range table {
		all = append(all, Prefix+r.name)
	}
	return all
}

func object(k resource.Key) bool { return !engine.Reserved(k) }

func removable(k resource.Key) bool {
	return object(k) || k == engine.AskKey || k == engine.FuseKey
}

func rowNamed(eventType string) (row, error) {
	name, ok := strings.CutPrefix(eventType, Prefix)
	for _, r := range table {
		if ok && r.name == name {
			return r, nil
		}
	}
	return row{}, ErrType
}

// payloadOf finds the type of m.
func payloadOf(m engine.Message) (row, payload, error) {
	for _, r := range table {
		p, ok, err := r.encode(m.Body)
		switch {
		case err != nil:
			return row{}, payload{}, err
		case ok && !r.keys(m.Key):
			return row{}, payload{}, fmt.Errorf("%w: a %s has another key", ErrMalformed, r.name)
		case ok:
			return r, p, nil
		}
	}
	return row{}, payload{}, fmt.Errorf("%w: %T", ErrType, m.Body)
}

// inJSON is the row of a body B that belongs to one reserved key and is written as the
// JSON of a W. Whether one can be read back is seen before it is sent, unless sure says so.
func inJSON[B engine.Body, W any](name string, key resource.Key, to func(B) W, from func(W) (B, error), sure func(B) bool) row {
	decode := func(p payload) (engine.Body, error) {
		var w W
		if err := json.Unmarshal(p.data, &w); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		return from(w)
	}
	encode := func(body engine.Body) (p payload, ok bool, err error) {
		b, ok := body.(B)
		if !ok {
			return p, false, nil
		}
		data, err := json.Marshal(to(b))
		if err != nil {
			return p, true, err
		}
		p = payload{extensions: make(texts, 4), data: data}
		if sure != nil && sure(b) {
			return p, true, nil
		}
		back, err := decode(p)
		if err == nil && back.Digest() != b.Digest() {
			err = fmt.Errorf("%w: a text is not valid UTF-8", ErrMalformed)
		}
		return p, true, err
	}
	return row{name: name, keys: func(k resource.Key) bool { return k == key }, encode: encode, decode: decode}
}
