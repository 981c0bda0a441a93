package wire

import (
	"encoding/json"
	"fmt"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/seal"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// sealed is the name of the type of a Record whose data is sealed: that of a state, as one
// text, for this key and digest alone. What it is called in the data is base64.
const sealed = "sealed"

type folded struct {
	Sealed []byte `json:"sealed"`
}

func secretive(k resource.Key) bool { return k.Kind.Sealed() }

// encodeNothing is of a type that closed makes of another.
func encodeNothing(engine.Body) (p payload, ok bool, err error) { return p, false, nil }

// secret reports whether m must be sealed.
func secret(m engine.Message) bool {
	r, ok := m.Body.(engine.Record)
	return ok && m.Key.Kind.Sealed() && r.Parts != (resource.Parts{})
}

// Shows reports whether a message may show what is secret: it came in clear, as it must not.
func Shows(t transport.Message) bool {
	k, err := Key(t.Key)
	return err == nil && k.Kind.Sealed() && t.Event.Context != nil && t.Event.Type() != Prefix+sealed
}

// closed returns the type and the data of m, which is secret, in place of the data of a
// state.
func closed(m engine.Message, data []byte, p *seal.Pair) (name string, _ []byte, err error) {
	if p == nil || m.Body.(engine.Record).Seal != p.Digest() {
		return "", nil, ErrKey
	}
	data, err = json.Marshal(folded{p.Seal(data, Name(m.Key), string(m.Body.Digest()))})
	return sealed, data, err
}

// unseal reads what closed has made. Its errors quote nothing of what is secret.
func unseal(r row, p payload, t transport.Message, pair *seal.Pair) (engine.Body, error) {
	if pair == nil {
		return nil, ErrKey
	}
	var w folded
	err := json.Unmarshal(p.data, &w)
	if err == nil {
		p.data, err = pair.Open(w.Sealed, t.Key, t.Digest)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	body, err := r.decode(p)
	if err != nil {
		return nil, fmt.Errorf("%w: what is sealed in it is no state", ErrMalformed)
	}
	record := body.(engine.Record)
	record.Seal = pair.Digest()
	return record, nil
}
