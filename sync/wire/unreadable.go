package wire

import (
	"errors"
	"strings"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// Unreadable returns what an engine is to know of a message that Decode has not read, and
// why is Decode's error. It reports false if there is nothing that an engine could know:
// the key is none of an object's.
//
// A tombstone that cannot be read still says that there is no row; and one of another version,
// of which original, since that is said alike in all of them.
func Unreadable(t transport.Message, why error) (engine.Message, bool) {
	k, err := Key(t.Key)
	if err != nil || engine.Reserved(k) {
		return engine.Message{}, false
	}
	if t.Tombstone() {
		return engine.Message{Key: k, Body: foreign(t, why)}, true
	}
	u := engine.Unreadable{Row: resource.Digest(t.Digest), Text: reason(why)}
	if t.Event.Context != nil {
		if uid := extended(t.Event).text("uid"); plain(uid) == nil {
			u.UID = uid
		}
	}
	return engine.Message{Key: k, Body: u}, true
}

// foreign returns what a tombstone says that is not read for the reason why.
func foreign(t transport.Message, why error) engine.Tombstone {
	if !errors.Is(why, transport.ErrVersion) {
		return engine.Tombstone{}
	}
	b, err := decodeTombstone(payload{extensions: extended(t.Event), data: t.Event.Data()})
	if err != nil {
		return engine.Tombstone{}
	}
	return b.(engine.Tombstone)
}

// reason returns why an event cannot be read, without its name.
func reason(err error) string {
	if e := (*Error)(nil); errors.As(err, &e) {
		err = e.Err
	}
	return strings.ToValidUTF8(err.Error(), "\uFFFD")
}
