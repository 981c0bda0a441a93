package engine

import (
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// sealing has what is secret wait until it can be sealed for the peer, and go anew once the
// key of either side is another. The keys themselves are not here: how two of them make
// one, and what it seals, is for who carries Messages.
type sealing struct {
	key     string          // for digests of what is sealed; "" as long as the peer's key is not known
	peer    string          // the peer's public half
	told    resource.Digest // of the Seal in our log
	said    Seal            // that one, if it is known
	unknown bool            // the peer's last Seal says that it does not know ours
	blank   bool            // our log keeps nothing: it is taken to have brought what is sealed, too
}

func (s *sealing) opened(ev Opened) {
	s.told, s.said, s.blank = ev.Holds[SealKey].Digest, Seal{}, !ev.Keeps && s.key == ""
}

func (s *sealing) unsent(k resource.Key) {
	if k == SealKey {
		s.told = ""
	}
}

// unsealed reports whether a row must not go into the log as it is.
func unsealed(k resource.Key, w Body) bool {
	r, ok := w.(Record)
	return ok && k.Kind.Sealed() && r.Seal == "" && r.Parts != (resource.Parts{})
}

// introduce tells the peer our key, and which of its own we know.
func (e *Engine) introduce() []Action {
	s := Seal{Public: e.cfg.Public, Of: e.sealing.peer}
	if !e.open || s.Public == "" || s == e.sealing.said && e.sealing.told != "" && !e.unknown {
		return nil
	}
	d := s.Digest()
	if e.sealing.said = s; d == e.sealing.told && !e.unknown {
		return nil
	}
	e.sealing.told, e.unknown = d, false
	return send(SealKey, s)
}

// keyed takes in the peer's key. A peer that does not know ours is told again: not every log
// brings everything to a process that has begun anew.
func (e *Engine) keyed(now time.Time, ev Keyed) []Action {
	e.sealing.peer, e.unknown = ev.Seal.Public, ev.Seal.Of != e.cfg.Public
	if ev.Key == e.key {
		return e.introduce()
	}
	e.key = ev.Key
	out := e.introduce()
	for _, k := range sorted(e.entries) {
		if k.Kind.Sealed() {
			out = append(out, e.reseal(now, k, e.entries[k])...)
		}
	}
	e.blank = false
	return out
}

// reseal decides anew of a key what waited for the peer's, or was sealed with another.
func (e *Engine) reseal(now time.Time, k resource.Key, en *entry) []Action {
	if en.opaque.Row != "" { // it may be readable when it is said again
		before := en.row()
		en.opaque = opaque{}
		e.copy.set(k, before, en.row())
		e.stirred = true
	}
	if !e.open {
		return nil
	}
	e.assume(k, en)
	if e.blank && en.sent == "" {
		e.follow(k, en)
		e.presume(k, en)
		e.log.set(k, "", en.sent)
	}
	return e.decide(now, k, en)
}

// presume takes our row to be in the log.
func (e *Engine) presume(k resource.Key, en *entry) {
	if w := e.want(k, en); !unsealed(k, w) {
		en.record(w, w.Digest())
	}
}
